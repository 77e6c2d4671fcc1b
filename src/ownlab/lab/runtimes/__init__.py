"""Runtime types, leases, limits, metering, the provisioner and the supervisor."""
