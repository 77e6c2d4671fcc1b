"""How long it takes to start something on a card: what small models and small batches spend their time on."""

from ownlab_guest.bench.device import Place
from ownlab_guest.bench.timing import HostClock, Outcome, percentiles, thinned


def back_to_back(place: Place, seconds: float) -> Outcome:
    """The smallest kernel, many times without waiting: Python, torch and the driver together."""
    one = place.torch.zeros(1, device=place.device)
    return place.time(lambda number: one.add_(1.0), seconds, 1.0, by_host=True)


def and_wait(place: Place, seconds: float) -> Outcome:
    """The smallest kernel, and until the host knows that it is done."""
    one = place.torch.zeros(1, device=place.device)
    taken, before, after = place.time_each(lambda number: one.add_(1.0), seconds)
    return Outcome(thinned(taken), 1.0, percentiles(taken), before=before, after=after)


def without_waiting(place: Place, seconds: float, size: int) -> Outcome:
    """Until the call of a large product returns. The product itself is not even begun then: this is no time of it."""
    torch = place.torch
    torch.backends.cuda.matmul.allow_tf32 = False
    place.need(2 * 4 * size**3)
    left = torch.rand(size, size, size, device=place.device)
    result = torch.empty_like(left)

    clock, taken = HostClock(), []
    for _ in range(12):
        place.wait()
        taken.append(clock.batch(lambda number: torch.bmm(left, left, out=result), 0, 1))
    place.wait()
    return Outcome(
        taken[2:], 1.0, note="the call returned; the card had not computed yet: never time a product like this"
    )
