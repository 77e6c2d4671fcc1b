"""`ownlab gpus advise` and `ownlab clouds cost`: which card and which platform for a job, at what price, and why.

From the options to the answer:

- `cli`: both commands and their options.
- `question`: checks the options, reads the reports of `ownlab fit`, and builds a `Question`.
- `published`: how long it takes where the throughput of its model was published.
- `duration`: how long the job takes on one card (given, measured, or estimated from the fit report), and on the others.
- `card_filter`: which cards hold the job, and how fast they are.
- `platform_costs`: the price comparison of platforms: for each offer the cost, and how sessions, quotas and days cut the job.
- `recommendations`: the free, the cheapest and the fastest offer, and the card to buy.
- `pipeline`: runs these steps and lists the assumptions.
- `records`, `formatting`, `terminal`: the JSON records, ranges of numbers as text, and the tables.
"""
