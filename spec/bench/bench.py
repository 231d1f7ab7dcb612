"""bench.py: dflow beside its peers, turn about, sample by sample.

Each system is a process of its own that is told what to prepare and when to take a sample, so that what disturbs the machine disturbs
all of them. For each workload the medians, how far the samples lie apart, and dflow's median over the best peer's (below 1: ahead);
the systems' results are compared as well. `make bench` calls it; only Python's own library is needed, and peers that are not installed
are left out.

  DFLOW        the program; build/release/dflow
  TF_PYTHON    the Python that can import TensorFlow 1's interface; build/peers/tf/bin/python, where `make bench-peers` puts it
  JT_PYTHON    the one for JAX, PyTorch and ONNX Runtime; build/peers/jt/bin/python
"""
import argparse, json, os, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PEERS = os.path.join(ROOT, "build/peers/%s/bin/python")
DFLOW = os.path.abspath(os.environ.get("DFLOW", os.path.join(ROOT, "build/release/dflow")))
TF = os.environ.get("TF_PYTHON", PEERS % "tf")
JT = os.environ.get("JT_PYTHON", PEERS % "jt")
SYSTEMS = {  # name: interpreter, script, the module it needs
    "dflow": (DFLOW, "serve.lua", None),
    "tf1": (TF, "serve_tf1.py", "tensorflow"),
    "jax": (JT, "serve_jax.py", "jax"),
    "torch": (JT, "serve_torch.py", "torch"),
    "ort": (JT, "serve_ort.py", "onnxruntime"),
}

SIZES = ["28_128_128", "100_32_128", "100_64_512"]
WORK = [(n, "ns/trip", 1e9) for n in ("counter", "counter_float", "nested", "cond_in_loop", "grad_scalar_loop")]
WORK += [("grad_rnn_loop", "us/trip", 1e6)]
WORK += [(n, "ns/elem", 1e9) for n in ("map_fn", "scan", "scan_grad")]
WORK += [("lstm_%s_%s" % (s, d), "ms", 1e3) for s in SIZES for d in ("fwd", "grad")]
WORK += [("lenet_step", "ms", 1e3), ("mlp_adam_step", "us", 1e6), ("ewise_chain", "ns/elem", 1e9)]
WORK += [(n, "us", 1e6) for n in (
    "sum_all", "sum_axis0", "sum_axis1", "mean_axis0", "transpose", "softmax", "layer_norm", "gather", "scatter_add",
    "gemm_64", "gemm_256", "gemm_1024", "gemm_2048", "conv", "conv_grad", "max_pool", "max_pool_grad", "null_step", "feed_add_fetch")]
WORK += [("build", "us/node", 1e6), ("chain_gradients", "ms", 1e3), ("chain_first_run", "ms", 1e3), ("start", "ms", 1)]


def arguments():
    p = argparse.ArgumentParser(description="dflow beside its peers, turn about")
    p.add_argument("--rounds", type=int, default=7, help="samples of each workload and system")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--only", help="these systems, as in dflow,torch")
    p.add_argument("--spin", type=int, metavar="CORE", help="beside a process that keeps this core busy")
    p.add_argument("--out", metavar="NAME", help="write NAME.md, NAME.json and NAME.svg")
    p.add_argument("work", nargs="*", help="these workloads, or the beginnings of their names")
    return p.parse_args()


def imports(python, module):
    try:
        return subprocess.run([python, "-c", "import " + module], capture_output=True).returncode == 0
    except OSError:
        return False


def systems(only):
    wanted = only.split(",") if only else SYSTEMS
    here = [w for w in wanted if SYSTEMS[w][2] is None or imports(*[SYSTEMS[w][i] for i in (0, 2)])]
    for w in wanted:
        if w not in here:
            print("bench: %s is left out: %s cannot import %s (make bench-peers)" % (w, SYSTEMS[w][0], SYSTEMS[w][2]), file=sys.stderr)
    return here


class Server:
    """A system in a process of its own."""
    def __init__(self, name, data, threads, pin):
        self.name = name
        self.log = tempfile.NamedTemporaryFile("w+", prefix="bench_%s_" % name, suffix=".err")
        env = dict(os.environ, THREADS=str(threads), OMP_NUM_THREADS=str(threads))
        self.process = subprocess.Popen(pin + [SYSTEMS[name][0], SYSTEMS[name][1], data], cwd=HERE, env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError:
            pass
        answer = self.process.stdout.readline()
        if not answer:
            self.log.seek(0)
            raise SystemExit("bench: %s has ended: %s" % (self.name, self.log.read()[-2000:]))
        return json.loads(answer)

    def end(self):
        self.process.stdin.close()
        self.process.terminate()


# The least program of each system: a sum, printed.
LEAST = {
    "dflow": ["-e", "print(df.run(df.constant{1, 2} + 1))"],
    "tf1": ["-c", "import tensorflow.compat.v1 as tf; tf.disable_v2_behavior(); print(tf.Session().run(tf.constant([1, 2]) + 1))"],
    "jax": ["-c", "import jax, jax.numpy as n; print(jax.jit(lambda x: x + 1)(n.array([1, 2])))"],
    "torch": ["-c", "import torch; print(torch.tensor([1, 2]) + 1)"],
    "ort": ["-c", "import numpy as n, onnxruntime as o; from onnx import TensorProto as T, helper as h; v = h.make_tensor_value_info; "
                  "m = h.make_model(h.make_graph([h.make_node('Add', ['x', 'x'], ['y'])], 'g', [v('x', T.FLOAT, [2])], [v('y', T.FLOAT, [2])]), "
                  "opset_imports=[h.make_opsetid('', 17)], ir_version=8); print(o.InferenceSession(m.SerializeToString(), "
                  "providers=['CPUExecutionProvider']).run(None, {'x': n.float32([1, 2])}))"],
}


def measure_start(names, rounds):
    """From nothing to the first result: a process each time."""
    samples = {w: [] for w in names}
    for _ in range(rounds):
        for w in names:
            begin = time.monotonic()
            subprocess.run([SYSTEMS[w][0]] + LEAST[w], check=True, capture_output=True)
            samples[w].append((time.monotonic() - begin) * 1e3)
    return summary("start", "ms", samples, [])


def summary(name, unit, samples, differ):
    median = {w: statistics.median(s) for w, s in samples.items()}
    peers = [median[w] for w in median if w != "dflow"]
    return dict(work=name, unit=unit, median=median, samples=samples, load=os.getloadavg()[0],
                spread={w: (max(s) - min(s)) / median[w] for w, s in samples.items()},
                ratio=median["dflow"] / min(peers) if peers and "dflow" in median else None, differ=differ)


def measure(servers, name, unit, scale, rounds):
    ready = {w: s.ask("prepare " + name) for w, s in servers.items()}
    for w, r in ready.items():
        if r.get("error"):
            print("bench: %s, %s: %s" % (name, w, r["error"]), file=sys.stderr)
    here = [w for w in servers if not ready[w].get("skip")]
    samples = {w: [] for w in here}
    for _ in range(rounds):
        for w in here:
            time.sleep(.3)              # until threads that another system keeps spinning for work have gone to sleep
            samples[w].append(servers[w].ask("sample") / ready[w]["count"] * scale)
    checks = {w: abs(ready[w]["check"]) for w in here if ready[w].get("check") is not None}
    middle = statistics.median(checks.values()) if checks else 0
    return summary(name, unit, samples, sorted(w for w, c in checks.items() if abs(c - middle) > 2e-3 * abs(middle)))


def row(r, names):
    cells = ["%.4g ±%d%%" % (r["median"][w], 50 * r["spread"][w]) if w in r["median"] else "–" for w in names]
    ratio = "–" if r["ratio"] is None else "**%.2f**" % r["ratio"] if r["ratio"] < 1 else "%.2f" % r["ratio"]
    return "| %s, %s | %s | %s |%s" % (r["work"], r["unit"], " | ".join(cells), ratio, " differ: %s" % ", ".join(r["differ"]) if r["differ"] else "")


def picture(rows):
    """The ratios as bars from 1, on a logarithmic scale: to the left dflow is ahead."""
    import math
    rows = [r for r in rows if r["ratio"]]
    place = lambda v: 480 + 120 * max(-3.0, min(3.0, math.log10(v)))
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="900" height="%d" font-family="sans-serif" font-size="12">' % (20 * len(rows) + 40),
           '<line x1="480" y1="20" x2="480" y2="%d" stroke="#888"/>' % (20 * len(rows) + 30), '<text x="440" y="14">as fast as the best peer</text>']
    for i, r in enumerate(rows):
        a, b = sorted((place(1), place(r["ratio"])))
        out.append('<text x="4" y="%d">%s</text><rect x="%.1f" y="%d" width="%.1f" height="12" fill="%s"/><text x="850" y="%d">%.2f</text>' % (
            36 + 20 * i, r["work"], a, 26 + 20 * i, b - a, "#3a7" if r["ratio"] < 1 else "#c63", 36 + 20 * i, r["ratio"]))
    return "\n".join(out + ["</svg>", ""])


def main():
    a = arguments()
    names = systems(a.only)
    rows, spin = [], None
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data.npz")
        subprocess.run([DFLOW, os.path.join(HERE, "data.lua"), data], check=True)
        pin = ["taskset", "-c", "1"] if a.threads == 1 and a.spin is None else []
        servers = {w: Server(w, data, a.threads, pin) for w in names}
        if a.spin is not None:
            spin = subprocess.Popen(["taskset", "-c", str(a.spin), sys.executable, "-c", "while True: pass"])
        head = ["| workload | %s | dflow ÷ best |" % " | ".join(names), "|---" * (len(names) + 2) + "|"]
        print("\n".join(head), flush=True)
        try:
            for name, unit, scale in WORK:
                if a.work and not any(name.startswith(w) for w in a.work):
                    continue
                rows.append(measure_start(names, a.rounds) if name == "start" else measure(servers, name, unit, scale, a.rounds))
                print(row(rows[-1], names), flush=True)
        finally:
            for s in servers.values():
                s.end()
            if spin:
                spin.terminate()
    if a.out:
        texts = {".md": "\n".join(head + [row(r, names) for r in rows] + [""]), ".svg": picture(rows),
                 ".json": json.dumps(dict(threads=a.threads, spin=a.spin, rows=rows), indent=1) + "\n"}
        for end, text in texts.items():
            with open(a.out + end, "w") as f:
                f.write(text)


main()
