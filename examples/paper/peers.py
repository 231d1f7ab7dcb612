"""The networks of OSDI'16's Table 1 in TensorFlow or PyTorch: peers.py tf|torch BATCH. Reads names of networks on stdin, a line each;
the answer to each is a line of the processor's milliseconds, one for each of the steps (a word after the name says how many), of one thread. A step is loss and gradients
of all weights, without an update. The networks are the lists of nets.txt, which dflow's program reads, too."""
import sys, time, os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
kind, batch, threads = sys.argv[1], int(sys.argv[2]), 1
nets = {}
for line in open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "nets.txt")):
    word = line.split("#")[0].split()
    if word: nets[word[0]] = (int(word[1]), word[2:])

def numbers(layer): return [int(n) for n in layer.split(":")[1].split(",")]
def kind_of(layer): return layer.split(":")[0]

def in_tensorflow(name):
    import tensorflow as tf
    tf = tf.compat.v1
    tf.disable_v2_behavior(); tf.reset_default_graph()
    size, layers = nets[name]
    weights = []
    def weight(shape):
        weights.append(tf.Variable(tf.random_uniform(shape, -0.05, 0.05)))
        return weights[-1]
    def conv(x, n, k, s, same): return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, weight([k, k, int(x.shape[3]), n]), [1, s, s, 1], "SAME" if same else "VALID"), weight([n])))
    def pool(x, k, s, same): return tf.nn.max_pool(x, [1, k, k, 1], [1, s, s, 1], "SAME" if same else "VALID")
    x = tf.constant(0.5, tf.float32, [batch, size, size, 3])
    for l in layers:
        n, k = numbers(l), kind_of(l)
        if k == "conv": x = conv(x, *n)
        elif k == "pool": x = pool(x, *n)
        elif k == "mean": x = tf.nn.avg_pool(x, [1, n[0], n[0], 1], [1, 1, 1, 1], "VALID")
        elif k == "inception":
            one = conv(x, n[0], 1, 1, 1); three = conv(conv(x, n[1], 1, 1, 1), n[2], 3, 1, 1); five = conv(conv(x, n[3], 1, 1, 1), n[4], 5, 1, 1)
            x = tf.concat([one, three, five, conv(pool(x, 3, 1, 1), n[5], 1, 1, 1)], 3)
        else:
            if len(x.shape) == 4: x = tf.reshape(x, [batch, -1])
            x = tf.nn.bias_add(tf.matmul(x, weight([int(x.shape[1]), n[0]])), weight([n[0]]))
            if k == "dense": x = tf.nn.relu(x)
    slopes = tf.gradients(tf.reduce_mean(tf.square(x)), weights)
    step = tf.add_n([tf.reshape(g, [-1])[0] for g in slopes])      # a group of ops without a reader would be pruned
    s = tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads))
    s.run(tf.global_variables_initializer())
    return lambda: s.run(step)

def in_pytorch(name):
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(threads)
    size, layers = nets[name]
    weights = {}
    def weight(key, shape):
        if key not in weights: weights[key] = (torch.rand(shape) * 0.1 - 0.05).requires_grad_()
        return weights[key]
    def padded(x, k, s, same, value):
        if not same: return x
        total = max((-(-x.shape[2] // s) - 1) * s + k - x.shape[2], 0)
        return F.pad(x, (total // 2, total - total // 2) * 2, value=value) if total else x
    def conv(x, key, n, k, s, same): return F.relu(F.conv2d(padded(x, k, s, same, 0.0), weight(key + "w", (n, x.shape[1], k, k)), weight(key + "b", (n,)), s))
    def pool(x, k, s, same): return F.max_pool2d(padded(x, k, s, same, float("-inf")), k, s)
    image = torch.full((batch, 3, size, size), 0.5)
    def forward():
        x = image
        for i, l in enumerate(layers):
            n, k, key = numbers(l), kind_of(l), str(i)
            if k == "conv": x = conv(x, key, *n)
            elif k == "pool": x = pool(x, *n)
            elif k == "mean": x = F.avg_pool2d(x, n[0], 1)
            elif k == "inception":
                one = conv(x, key + "a", n[0], 1, 1, 1); three = conv(conv(x, key + "c", n[1], 1, 1, 1), key + "d", n[2], 3, 1, 1)
                five = conv(conv(x, key + "e", n[3], 1, 1, 1), key + "f", n[4], 5, 1, 1)
                x = torch.cat([one, three, five, conv(pool(x, 3, 1, 1), key + "g", n[5], 1, 1, 1)], 1)
            else:
                x = x.flatten(1)
                x = F.linear(x, weight(key + "w", (n[0], x.shape[1])), weight(key + "b", (n[0],)))
                if k == "dense": x = F.relu(x)
        return (x * x).mean()
    forward()
    def step(): torch.autograd.grad(forward(), list(weights.values()))
    return step

steps = {}
if kind == "tf":
    import tensorflow
    print("TensorFlow " + tensorflow.__version__, flush=True)
else:
    import torch
    print("PyTorch " + torch.__version__.split("+")[0], flush=True)
for line in sys.stdin:
    if not line.strip(): break
    name, times = line.split()[0], int(line.split()[1])
    if name not in steps:
        steps.clear()                      # one network's weights at a time
        steps[name] = (in_tensorflow if kind == "tf" else in_pytorch)(name)
        steps[name]()
    out = []
    for _ in range(times):
        began = time.process_time()
        steps[name]()
        out.append("%.3f" % ((time.process_time() - began) * 1e3))
    print(" ".join(out), flush=True)
