"""The instruments, one folder per command: doctor, top, bench, fit, advise."""
