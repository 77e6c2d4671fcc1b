"""`ownlab top`: the full screen. What imports Textual is `app`, `widgets` and `dialogs`; the rest serves pipes as well."""
