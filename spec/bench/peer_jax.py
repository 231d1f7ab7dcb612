"""JAX, compiled by XLA, on the workloads of bench.lua, same JSON lines. Compile time is not counted.

Arguments name the workloads to measure; none means all.
"""
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

ONLY = set(sys.argv[1:])
random = np.random.RandomState(1)


def normal(*shape):
    return jnp.array(random.randn(*shape).astype("float32"))


def report(work, value, unit):
    print(json.dumps({"who": "jax-" + jax.__version__, "work": work, "value": value, "unit": unit}), flush=True)


def best(fn, *args, times=5):
    fn = jax.jit(fn).lower(*args).compile()
    jax.block_until_ready(fn(*args))
    least = float("inf")
    for _ in range(times):
        t = time.perf_counter()
        jax.block_until_ready(fn(*args))
        least = min(least, time.perf_counter() - t)
    return least


def workload(fn):
    if not ONLY or fn.__name__ in ONLY:
        fn()


@workload
def counter():
    n = 1000000
    report("counter", n / best(lambda n: lax.while_loop(lambda i: i < n, lambda i: i + 1, 0), n), "it/s")


@workload
def nested():
    def inner(a):
        return lax.while_loop(lambda s: s[0] < 100, lambda s: (s[0] + 1, s[1] + 1.0), (0, a))[1]

    def run(a):
        return lax.while_loop(lambda s: s[0] < 300, lambda s: (s[0] + 1, inner(s[1])), (0, a))

    report("nested", 30000 / best(run, 0.0), "it/s")


@workload
def cond_in_loop():
    n = 100000

    def body(s):
        i, x = s
        return i + 1, lax.cond(i % 2 == 0, lambda v: v * 1.0001, lambda v: v - 0.0001, x)

    report("cond_in_loop", n / best(lambda x: lax.while_loop(lambda s: s[0] < n, body, (0, x)), 0.5), "it/s")


@workload
def grad_scalar_loop():
    n = 10000

    def run(x):
        return lax.scan(lambda x, _: (jnp.sin(x), None), x, None, length=n)[0]

    report("grad_scalar_loop", best(jax.value_and_grad(run), 0.5) / n * 1e6, "us/it")


@workload
def grad_rnn_loop():
    d, b, n = 32, 16, 1000
    w, h0 = normal(d, d) / d**0.5, normal(b, d)

    def run(w):
        return lax.scan(lambda x, _: (jnp.tanh(x @ w), None), h0, None, length=n)[0].sum()

    report("grad_rnn_loop", best(jax.grad(run), w) / n * 1e6, "us/it")


@workload
def feed_add_fetch():
    n = 5000
    call = jax.jit(lambda x: x + 1.0)
    float(call(1.0))
    t = time.perf_counter()
    for _ in range(n):
        float(call(1.0))
    report("feed_add_fetch", (time.perf_counter() - t) / n * 1e6, "us")


@workload
def matmul_tanh():
    for d, n in ((64, 20000), (256, 5000)):
        def run(w, x):
            return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, jnp.tanh(s[1] @ w)), (0, x))

        report("matmul_tanh_%d" % d, best(run, normal(d, d) / d**0.5, normal(1, d), times=3) / n * 1e6, "us/it")


@workload
def lstm():
    steps, b, i, h = 28, 128, 28, 128
    x, w, bias = normal(steps, b, i), normal(i + h, 4 * h) * 0.05, jnp.zeros(4 * h)

    def loss(w, bias):
        def step(s, x):
            c, state = s
            gate, new, forget, show = jnp.split(jnp.concatenate([x, state], 1) @ w + bias, 4, 1)
            c = c * jax.nn.sigmoid(forget + 1.0) + jax.nn.sigmoid(gate) * jnp.tanh(new)
            state = jnp.tanh(c) * jax.nn.sigmoid(show)
            return (c, state), state

        zero = jnp.zeros((b, h))
        return jnp.mean(jnp.square(lax.scan(step, (zero, zero), x)[1]))

    report("lstm_forward", best(loss, w, bias) * 1e3, "ms")
    report("lstm_gradient", best(jax.value_and_grad(loss, (0, 1)), w, bias) * 1e3, "ms")
