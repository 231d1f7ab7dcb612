"""TensorFlow in v1 mode (Switch/Merge executor) on the workloads of bench.lua, same sizes, same JSON lines.

Arguments name the workloads to measure; none means all.
"""
import json
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow.compat.v1 as tf

VERSION = tf.__version__
tf.disable_v2_behavior()
tf.disable_control_flow_v2()
THREADS = int(os.environ.get("THREADS", os.cpu_count()))
CONFIG = tf.ConfigProto(intra_op_parallelism_threads=THREADS, inter_op_parallelism_threads=THREADS)
ONLY = set(sys.argv[1:])
random = np.random.RandomState(1)


def normal(*shape):
    return random.randn(*shape).astype("float32")


def report(work, value, unit):
    print(json.dumps({"who": "tensorflow-" + VERSION, "work": work, "value": value, "unit": unit}), flush=True)


def best(fn, times=5, warm=2):
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
        tf.reset_default_graph()
        fn()


def timed(fetches, feeds=(), values=(), times=5):
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        call = session.make_callable(fetches, list(feeds))
        return best(lambda: call(*values), times)


@workload
def counter():
    n = 100000
    i = tf.while_loop(lambda i: i < n, lambda i: i + 1, [tf.constant(0)], parallel_iterations=32)
    report("counter", n / timed(i), "it/s")


@workload
def nested():
    def outer(i, a):
        inner = tf.while_loop(lambda j, b: j < 100, lambda j, b: (j + 1, b + 1.0), [tf.constant(0), a])
        return i + 1, inner[1]

    a = tf.while_loop(lambda i, a: i < 300, outer, [tf.constant(0), tf.constant(0.0)])[1]
    report("nested", 30000 / timed(a), "it/s")


@workload
def cond_in_loop():
    n, x0 = 30000, tf.placeholder(tf.float32, [])

    def body(i, x):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: x * 1.0001, lambda: x - 0.0001)

    x = tf.while_loop(lambda i, x: i < n, body, [tf.constant(0), x0])[1]
    report("cond_in_loop", n / timed(x, [x0], [0.5]), "it/s")


@workload
def grad_scalar_loop():
    n, x0 = 10000, tf.placeholder(tf.float32, [])
    x = tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.sin(x)), [tf.constant(0), x0])[1]
    report("grad_scalar_loop", timed([x, tf.gradients(x, x0)[0]], [x0], [0.5]) / n * 1e6, "us/it")


@workload
def grad_rnn_loop():
    d, b, n = 32, 16, 1000
    w, h0 = tf.Variable(normal(d, d) / d**0.5), tf.constant(normal(b, d))
    x = tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.tanh(tf.matmul(x, w))), [tf.constant(0), h0])[1]
    report("grad_rnn_loop", timed(tf.gradients(tf.reduce_sum(x), w)) / n * 1e6, "us/it")


@workload
def build():
    n = 5000
    y, c = tf.placeholder(tf.float32, []), tf.constant(2.0)
    t = time.perf_counter()
    for _ in range(n):
        y = tf.multiply(y, c)
    report("build", n / (time.perf_counter() - t), "nodes/s")


@workload
def chain_5000():
    x = tf.placeholder(tf.float32, [])
    y = x
    for k in range(1, 5001):
        y = tf.sin(y) if k % 2 == 0 else tf.multiply(y, x)
    t = time.perf_counter()
    g = tf.gradients(y, x)[0]
    built = time.perf_counter()
    with tf.Session(config=CONFIG) as session:
        session.run([y, g], {x: 0.3})
    report("chain_5000_gradients", (built - t) * 1e3, "ms")
    report("chain_5000_first_run", (time.perf_counter() - built) * 1e3, "ms")


@workload
def null_step():
    nop, n = tf.no_op(), 2000
    with tf.Session(config=CONFIG) as session:
        call = session.make_callable(nop)
        report("null_step", best(lambda: [call() for _ in range(n)]) / n * 1e6, "us")


@workload
def feed_add_fetch():
    x, n = tf.placeholder(tf.float32, []), 2000
    with tf.Session(config=CONFIG) as session:
        call = session.make_callable(x + 1.0, [x])
        report("feed_add_fetch", best(lambda: [call(1.0) for _ in range(n)]) / n * 1e6, "us")


@workload
def matmul_tanh():
    for d, n in ((64, 20000), (256, 5000)):
        tf.reset_default_graph()
        w, x0 = tf.constant(normal(d, d) / d**0.5), tf.constant(normal(1, d))
        x = tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.tanh(tf.matmul(x, w))), [tf.constant(0), x0])[1]
        report("matmul_tanh_%d" % d, timed(x.op, times=3) / n * 1e6, "us/it")


@workload
def heavy_loops():
    def loop(name, n, body, x0):
        x = tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, body(x)), [tf.constant(0), x0])[1]
        report(name, n / timed(x.op, times=5), "it/s")

    for d, n in ((256, 200), (512, 60), (1024, 20)):
        tf.reset_default_graph()
        w = tf.constant(normal(d, d) / d**0.5)
        loop("product_%d" % d, n, lambda x: tf.tanh(tf.matmul(x, w)), tf.constant(normal(d, d)))
    tf.reset_default_graph()
    kernel = tf.constant(normal(3, 3, 32, 32) / 17)
    loop("convolution", 20, lambda x: tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME")), tf.constant(normal(8, 32, 32, 32)))


@workload
def lstm():
    steps, b, i, h = 28, 128, 28, 128
    inputs = tf.TensorArray(tf.float32, steps).unstack(tf.constant(normal(steps, b, i)))
    w, bias = tf.Variable(normal(i + h, 4 * h) * 0.05), tf.Variable(np.zeros(4 * h, "float32"))
    zero = tf.zeros([b, h])

    def body(t, c, state, out):
        z = tf.matmul(tf.concat([inputs.read(t), state], 1), w) + bias
        gate, new, forget, show = tf.split(z, 4, 1)
        c = c * tf.sigmoid(forget + 1.0) + tf.sigmoid(gate) * tf.tanh(new)
        state = tf.tanh(c) * tf.sigmoid(show)
        return t + 1, c, state, out.write(t, state)

    start = [tf.constant(0), zero, zero, tf.TensorArray(tf.float32, steps)]
    out = tf.while_loop(lambda t, *_: t < steps, body, start, parallel_iterations=32)[3]
    loss = tf.reduce_mean(tf.square(out.stack()))
    report("lstm_forward", timed(loss) * 1e3, "ms")
    report("lstm_gradient", timed([loss] + tf.gradients(loss, [w, bias])) * 1e3, "ms")
