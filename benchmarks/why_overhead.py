"""What `ownlab why` costs a training script: CPU time of 200 steps with and without it, in turns.

    .venv-torch/bin/python benchmarks/why_overhead.py

CPU time of the process, all threads, instead of wall time: the load of the machine hardly changes it. The step is a small
convolutional network on the CPU, fed by a DataLoader, with a print every 10 steps: about 20 ms, so that what is measured per step is
large against the step. What is said of the cost is the median of the pairs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SITE = Path(__file__).resolve().parents[1] / "src" / "ownlab_guest" / "why" / "site"
PAIRS = 7
SCRIPT = """
import sys, time, torch
torch.set_num_threads(1)
torch.manual_seed(0)
layers = [torch.nn.Sequential(torch.nn.Conv2d(16, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU()) for _ in range(16)]
model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), *layers, torch.nn.Flatten(), torch.nn.Linear(16 * 30 * 30, 10))
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(220 * 4, 3, 32, 32), torch.zeros(220 * 4, dtype=torch.long))
begin = 0
for step, (x, y) in enumerate(torch.utils.data.DataLoader(data, batch_size=4)):
    if step == 20:
        begin, wall = time.process_time(), time.perf_counter()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
print(time.process_time() - begin, time.perf_counter() - wall, file=sys.stderr)
"""


def seconds(*, measured: bool) -> tuple[float, float]:
    """CPU and wall time of the last 200 steps."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_text(SCRIPT)
        environment = dict(os.environ)
        if measured:
            environment |= {"PYTHONPATH": str(SITE), "OWNLAB_WHY": folder, "OWNLAB_WHY_STEPS": "220"}
        ran = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, check=True)
    cpu, wall = map(float, ran.stderr.split())
    return cpu, wall


def main() -> None:
    """Measure in turns."""
    pairs = []
    for number in range(PAIRS):
        order = (False, True) if number % 2 else (True, False)
        times = {measured: seconds(measured=measured) for measured in order}
        pairs.append((times[False], times[True]))
        print(f"without {times[False][0]:.3f} s CPU, with {times[True][0]:.3f} s CPU", flush=True)
    ratios = [after[0] / before[0] - 1 for before, after in pairs]
    step = statistics.median(before[0] for before, _ in pairs) / 200 * 1e3
    print(
        f"CPU: {statistics.median(ratios):+.1%} (from {min(ratios):+.1%} to {max(ratios):+.1%}) of a step of {step:.1f} ms"
    )


if __name__ == "__main__":
    main()
