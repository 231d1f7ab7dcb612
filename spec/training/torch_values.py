"""Writes spec/training/torch_values.lua.gz: what PyTorch computes for layers, losses and a hundred steps of training.

    python spec/training/torch_values.py | gzip -9n > spec/training/torch_values.lua.gz

Weights and inputs are made by `numbers`, as in spec/training/numbers.lua, in the layout that df has: so only results are written down.
"""
import textwrap
import numpy as np
import torch
import torch.nn.functional as F


def numbers(shape, k, scale=1.0):
    n = int(np.prod(shape))
    a = (scale * ((np.arange(n) * 7919 + k * 104729) % 1000 / 500.0 - 1)).reshape(shape).astype(np.float32)
    return torch.from_numpy(a)


def given(shape, k, scale=1.0):
    return numbers(shape, k, scale).requires_grad_()


def lua(v):
    if isinstance(v, torch.Tensor):
        v = v.detach().tolist()
    if isinstance(v, (list, tuple)):
        return '{' + ', '.join(lua(x) for x in v) + '}'
    return '%.7g' % v


def case(name, **values):
    text = '%s = { %s },' % (name, ', '.join('%s = %s' % (k, lua(values[k])) for k in sorted(values)))
    print('\n'.join(textwrap.wrap(text, 120, initial_indent='  ', subsequent_indent='    ', break_on_hyphens=False)))


def grads(y, *xs):
    return torch.autograd.grad((y * numbers(y.shape, 99)).sum(), xs)


print('--- What PyTorch computed; made by spec/training/torch_values.py.\nreturn {')

# ---- layers: images are [batch, height, width, channels], kernels [height, width, in, out] ----
x, k, b = given([2, 7, 6, 3], 1), given([3, 2, 3, 4], 2), given([4], 3)
y = F.conv2d(x.permute(0, 3, 1, 2), k.permute(3, 2, 0, 1), b, stride=2).permute(0, 2, 3, 1)
dx, dk, db = grads(y, x, k, b)
case('convolution', y=y[1], dx=dx[1, 2], dk=dk[0, 1], db=db)
x, k = given([2, 3, 4, 3], 1), given([3, 2, 2, 3], 2)
y = F.conv_transpose2d(x.permute(0, 3, 1, 2), k.permute(3, 2, 0, 1), stride=2).permute(0, 2, 3, 1)
dx, dk = grads(y, x, k)
case('transposed', y=y[1, 1], dx=dx[1, 2], dk=dk[0, 1])
x = given([2, 6, 6, 2], 1)
y = F.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)
case('max_pool', y=y[0], dx=grads(y, x)[0][1])
y = F.avg_pool2d(x.permute(0, 3, 1, 2), 3).permute(0, 2, 3, 1)
case('average_pool', y=y[0], dx=grads(y, x)[0][1])
x, g, b = given([3, 5], 1), given([5], 2), given([5], 3)
y = F.layer_norm(x, [5], g, b, 1e-6)
dx, dg, db = grads(y, x, g, b)
case('layer_norm', y=y, dx=dx, dg=dg, db=db)
y = F.rms_norm(x, [5], g, 1e-6)
dx, dg = grads(y, x, g)
case('rms_norm', y=y, dx=dx, dg=dg)
x, g, b = given([2, 3, 2, 6], 1), given([6], 2), given([6], 3)
y = F.group_norm(x.permute(0, 3, 1, 2), 3, g, b, 1e-3).permute(0, 2, 3, 1)
dx, dg = grads(y, x, g)
case('group_norm', y=y[1], dx=dx[1], dg=dg)


# ---- an LSTM; its gates i f g o there are i j f o here, and both biases are one ----
def lstm_of(inputs, units):
    kernel, bias = numbers([inputs + units, 4 * units], 20, 0.5), numbers([4 * units], 21, 0.5)
    i, j, f, o = kernel.split(units, 1)
    bi, bj, bf, bo = bias.split(units)
    net = torch.nn.LSTM(inputs, units, batch_first=True)
    with torch.no_grad():
        w = torch.cat([i, f, j, o], 1).T
        net.weight_ih_l0.copy_(w[:, :inputs])
        net.weight_hh_l0.copy_(w[:, inputs:])
        net.bias_ih_l0.copy_(torch.cat([bi, bf, bj, bo]))
        net.bias_hh_l0.zero_()
    net.bias_hh_l0.requires_grad_(False)
    return net


net, x = lstm_of(2, 3), given([2, 5, 2], 1)
y, (h, c) = net(x)
dx, dw = grads(y, x, net.weight_hh_l0)
case('lstm', y=y, c=c[0], dx=dx, dw=torch.stack([a.T for a in dw.split(3)]))

# ---- a block of a transformer ----
block = torch.nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, activation=F.gelu, layer_norm_eps=1e-6, batch_first=True, norm_first=True)
with torch.no_grad():
    block.self_attn.in_proj_weight.copy_(torch.cat([numbers([6, 6], 10 + k, 0.5).T for k in range(3)]))
    block.self_attn.in_proj_bias.copy_(torch.cat([numbers([6], 13 + k, 0.5) for k in range(3)]))
    block.self_attn.out_proj.weight.copy_(numbers([6, 6], 16, 0.5).T)
    block.self_attn.out_proj.bias.copy_(numbers([6], 17, 0.5))
    block.linear1.weight.copy_(numbers([6, 12], 18, 0.5).T)
    block.linear1.bias.copy_(numbers([12], 19, 0.5))
    block.linear2.weight.copy_(numbers([12, 6], 20, 0.5).T)
    block.linear2.bias.copy_(numbers([6], 21, 0.5))
block.train()
x = given([2, 4, 6], 1)
y = block(x, src_mask=torch.nn.Transformer.generate_square_subsequent_mask(4), is_causal=True)
dx, dw = grads(y, x, block.linear1.weight)
case('block', y=y, dx=dx, dw=dw.T)

# ---- losses ----
p, y, classes = given([4, 3], 2, 2.0), (numbers([4, 3], 1) > 0).float(), torch.tensor([0, 2, 1, 1])
losses = {'softmax': F.cross_entropy(p, classes), 'smoothed': F.cross_entropy(p, classes, label_smoothing=0.1),
          'sigmoid': F.binary_cross_entropy_with_logits(p, y), 'mean_squared_error': F.mse_loss(p, y), 'absolute': F.l1_loss(p, y),
          'huber': F.huber_loss(p, y, delta=0.7),
          'kl': F.kl_div(F.log_softmax(numbers([4, 3], 3), 1), F.softmax(p, 1), reduction='batchmean')}
case('losses', **losses)
case('slopes', **{k: torch.autograd.grad(v, p, retain_graph=True)[0] for k, v in losses.items()})
logits = given([6, 3, 5], 1, 2.0)
loss = F.ctc_loss(F.log_softmax(logits, 2), torch.tensor([[0, 1, 2], [3, 0, 0], [2, 2, 1]]), torch.tensor([6, 3, 5]), torch.tensor([3, 1, 3]),
                  blank=4, reduction='none')
case('ctc', y=loss, dx=grads(loss, logits)[0][:, 2])

# ---- a hundred steps: an LSTM, its last output, a dense layer, AdamW and clipping by the global norm ----
net = lstm_of(3, 5)
w, b = given([5, 2], 22, 0.5), given([2], 23, 0.5)
x, goal = numbers([4, 6, 3], 1), numbers([4, 2], 2)
parameters = [v for v in net.parameters() if v.requires_grad] + [w, b]
optimizer, seen = torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1), []
for _ in range(100):
    optimizer.zero_grad()
    loss = ((net(x)[0][:, -1] @ w + b - goal) ** 2).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 0.5)
    optimizer.step()
    seen.append(loss.item())
case('training', losses=[seen[i] for i in (0, 1, 9, 49, 99)])
print('}')
