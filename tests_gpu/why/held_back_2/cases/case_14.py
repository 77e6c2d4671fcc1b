# ruff: noqa: N812, T201
"""DQN on stacked frames of a toy game, with a replay memory of transitions."""

import argparse
import random
import statistics
import time
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Meter:
    """Wall time of a step, over windows of steps; the device is awaited at the end of each window only."""

    def __init__(self, window=10, warmup=20):
        self.window, self.warmup = window, warmup
        self.count, self.last, self.windows = 0, time.perf_counter(), []

    def step(self):
        self.count += 1
        if self.count % self.window:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self.count > self.warmup:
            self.windows.append((now - self.last) / self.window * 1000)
        self.last = now

    def report(self):
        print(f"STEP_MS {statistics.median(self.windows):.3f}", flush=True)


Transition = namedtuple("Transition", "state action reward following done")


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *values):
        self.memory.append(Transition(*values))

    def sample(self, count):
        return Transition(*zip(*random.sample(self.memory, count), strict=True))


class Catch:
    """A ball falls through a field of pixels, and a paddle below is to meet it."""

    def __init__(self, side):
        self.side = side
        self.reset()

    def reset(self):
        self.row, self.column, self.paddle = 0, random.randrange(4, self.side - 4), self.side // 2
        self.frames = deque([np.zeros((self.side, self.side), np.uint8)] * 4, maxlen=4)
        return np.stack(self.frames)

    def step(self, action):
        self.row += 4
        self.paddle = min(self.side - 5, max(4, self.paddle + 4 * (action - 1)))
        frame = np.zeros((self.side, self.side), np.uint8)
        frame[self.row : self.row + 4, self.column - 2 : self.column + 2] = 255
        frame[-4:, self.paddle - 4 : self.paddle + 4] = 128
        self.frames.append(frame)
        done = self.row + 8 > self.side
        return np.stack(self.frames), float(done and abs(self.paddle - self.column) < 5), done


def q_network(width, side, actions=3):
    body = nn.Sequential(
        nn.Conv2d(4, width, 8, 4), nn.ReLU(), nn.Conv2d(width, 2 * width, 4, 2), nn.ReLU(), nn.Flatten()
    )
    flat = body(torch.zeros(1, 4, side, side)).shape[1]
    return nn.Sequential(body, nn.Linear(flat, 16 * width), nn.ReLU(), nn.Linear(16 * width, actions))


def learn(memory, batch, online, target, optimizer, device, discount=0.99):
    sample = memory.sample(batch)
    states = torch.tensor(sample.state).to(device).float().div_(255)
    following = torch.tensor(sample.following).to(device).float().div_(255)
    actions, rewards = torch.tensor(sample.action).to(device), torch.tensor(sample.reward).to(device)
    running = 1 - torch.tensor(sample.done).to(device).float()
    with torch.no_grad():
        goal = rewards + discount * running * target(following).max(1).values
    value = online(states).gather(1, actions.unsqueeze(1)).squeeze(1)
    loss = F.smooth_l1_loss(value, goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    side, batch, width, first = (48, 4, 4, 50) if args.tiny else (84, 32, 64, 2000)
    game, memory = Catch(side), ReplayMemory(10_000)
    online, target = q_network(width, side).to(device), q_network(width, side).to(device)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4, fused=device.type == "cuda")
    state = game.reset()
    meter = Meter()
    for move in range(first + args.steps):
        action = random.randrange(3)  # the first moves of a run explore
        following, reward, done = game.step(action)
        memory.push(state, action, reward, following, done)
        state = game.reset() if done else following
        if move < first:
            continue
        loss = learn(memory, batch, online, target, optimizer, device)
        if move % 100 == 0:
            target.load_state_dict(online.state_dict())
        meter.step()
    print(f"{len(memory.memory)} transitions, loss {loss.item():.5f}")
    meter.report()


if __name__ == "__main__":
    main()
