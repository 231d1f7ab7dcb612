"""PyTorch, eager, on the workloads of bench.lua, same JSON lines.

Arguments name the workloads to measure; none means all.
"""
import json
import os
import sys
import time

import numpy as np
import torch

torch.set_num_threads(int(os.environ.get("THREADS", os.cpu_count())))
ONLY = set(sys.argv[1:])
random = np.random.RandomState(1)


def normal(*shape):
    return torch.tensor(random.randn(*shape).astype("float32"))


def report(work, value, unit):
    print(json.dumps({"who": "torch-" + torch.__version__, "work": work, "value": value, "unit": unit}), flush=True)


def best(fn, times=5, warm=1):
    for _ in range(warm):
        fn()
    least = float("inf")
    for _ in range(times):
        t = time.perf_counter()
        fn()
        least = min(least, time.perf_counter() - t)
    return least


def workload(fn):
    if not ONLY or fn.__name__ in ONLY:
        fn()


@workload
def counter():
    n = 20000

    def run():
        i = torch.tensor(0)
        while i < n:
            i = i + 1

    report("counter", n / best(run, 3), "it/s")


@workload
def nested():
    def run():
        i, a = torch.tensor(0), torch.tensor(0.0)
        while i < 100:
            j = torch.tensor(0)
            while j < 100:
                j, a = j + 1, a + 1.0
            i = i + 1

    report("nested", 10000 / best(run, 3), "it/s")


@workload
def cond_in_loop():
    n = 10000

    def run():
        i, x = torch.tensor(0), torch.tensor(0.5)
        while i < n:
            x = x * 1.0001 if i % 2 == 0 else x - 0.0001
            i = i + 1

    report("cond_in_loop", n / best(run, 3), "it/s")


@workload
def grad_scalar_loop():
    n = 10000

    def run():
        x = x0 = torch.tensor(0.5, requires_grad=True)
        for _ in range(n):
            x = torch.sin(x)
        x.backward()
        return x0.grad

    report("grad_scalar_loop", best(run, 3) / n * 1e6, "us/it")


@workload
def grad_rnn_loop():
    d, b, n = 32, 16, 1000
    w, h0 = (normal(d, d) / d**0.5).requires_grad_(), normal(b, d)

    def run():
        w.grad, x = None, h0
        for _ in range(n):
            x = torch.tanh(x @ w)
        x.sum().backward()

    report("grad_rnn_loop", best(run, 3) / n * 1e6, "us/it")


@workload
def feed_add_fetch():
    n = 5000

    def run():
        for _ in range(n):
            (torch.tensor(1.0) + 1.0).item()

    report("feed_add_fetch", best(run) / n * 1e6, "us")


@workload
def matmul_tanh():
    for d, n in ((64, 5000), (256, 5000)):
        w, x0 = normal(d, d) / d**0.5, normal(1, d)

        def run():
            x = x0
            for _ in range(n):
                x = torch.tanh(x @ w)

        with torch.no_grad():
            report("matmul_tanh_%d" % d, best(run, 3) / n * 1e6, "us/it")


@workload
def lstm():
    steps, b, i, h = 28, 128, 28, 128
    x, net = normal(steps, b, i), torch.nn.LSTM(i, h)

    def loss():
        return net(x)[0].square().mean()

    def gradient():
        net.zero_grad()
        loss().backward()

    with torch.no_grad():
        report("lstm_forward", best(loss) * 1e3, "ms")
    report("lstm_gradient", best(gradient) * 1e3, "ms")
