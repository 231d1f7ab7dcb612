--- Gradients of convolutions and pools: ONNX has them as convolutions of other operands, and as places that MaxPool
-- tells.
-- windows_grad(M, help) adds them to the table of ops.lua, which says what x and n are.
local proto = require 'dflow.exchange.onnx.proto'
local I, L, S = proto.int, proto.ints, proto.string
local FLOAT32, FLOAT64 = 1, 2

return function(M, help)
  local places_of, windowed, channels_second, channels_back = help.places_of, help.windowed, help.channels_second,
    help.channels_back
  local from_to = help.from_to

  local function joined(...)
    local out = {}
    for _, list in ipairs{ ... } do for _, v in ipairs(list) do out[#out + 1] = v end end
    return out
  end

  local function check_floats(n, d)
    if d ~= FLOAT32 and d ~= FLOAT64 then n:refuse 'the operators that stand for it take float32 and float64' end
  end

  --- What is known of a window that goes over an axis of `size` in `out` steps: how far it reaches, and what is padded.
  local function reach_of(n, size, out, kernel, stride, dilation)
    if not size or size < 0 or not out or out < 0 or not kernel or kernel < 0 then
      n:refuse 'the sizes of what it makes are known only when it runs'
    end
    local reach = (out - 1) * stride + (kernel - 1) * dilation + 1
    local all = n.attr 'padding' == 'SAME' and math.max(reach - size, 0) or 0
    return { reach = reach, before = math.floor(all / 2), after = math.ceil(all / 2), more = size - (reach - all) }
  end
  --- The same for all axes of places: a list, the pads as ONNX has them, and what a transposed convolution adds behind.
  local function reaches(n, sizes, outs, kernel)
    if n.attr 'padding' == 'EXPLICIT' then n:refuse 'its paddings are explicit' end
    local strides, dilations = places_of(n, n.attr 'strides'), n.attr 'dilations' and places_of(n, n.attr 'dilations')
    local list, pads, more = {}, {}, {}
    for i = 1, #strides do
      local r = reach_of(n, sizes[i], outs[i], kernel[i], strides[i], dilations and dilations[i] or 1)
      list[i], pads[i], pads[#strides + i], more[i] = r, r.before, r.after, r.more
    end
    return list, pads, more
  end

  -- ---- pools --------------------------------------------------------------------------------------------------------
  --- (input, output, gradients): each goes to the place of its maximum, of which MaxPool gives the number.
  function M.MaxPoolGrad(x, n)
    local d = n:d(1)
    check_floats(n, d)
    local places
    windowed(x, n, { n[1] }, 'MaxPool', {}, function(names) places = names[2] end)
    local input, flat = channels_second(x, n, n[1]), x:ints{ -1 }
    local shape = x:op('Shape', { input })
    local zeros = x:op('Expand', { x:number(0, d), x:op('ReduceProd', { shape }, { keepdims = I(1) }) })
    local sums = x:op('ScatterElements', { zeros, x:op('Reshape', { places, flat }),
        x:op('Reshape', { channels_second(x, n, n[3]), flat }) },
                      { axis = I(0), reduction = S 'add' })
    return channels_back(x, n, x:op('Reshape', { sums, shape }))
  end
  M.MaxPool3DGrad = M.MaxPoolGrad

  --- (sizes of the input, gradients): each divided by how many elements its mean was of, and given to all of them.
  function M.AvgPoolGrad(x, n)
    local d, sizes, dy = n:d(2), n:numbers(1), n:shape(2)
    check_floats(n, d)
    if not sizes or not dy then n:refuse 'the sizes of what it makes are known only when it runs' end
    local made, kernel, strides = places_of(n, sizes), places_of(n, n.attr 'ksize'), places_of(n, n.attr 'strides')
    local outs = places_of(n, dy)
    local list, pads, more = reaches(n, made, outs, kernel)
    local counts = { 1 }
    for i, r in ipairs(list) do
      local wider = {}
      for _, before in ipairs(counts) do
        for o = 0, outs[i] - 1 do
          local from = o * strides[i] - r.before
          wider[#wider + 1] = before * (math.min(from + kernel[i], made[i]) - math.max(from, 0))
        end
      end
      counts = wider
    end
    local channels = sizes[n.attr 'data_format':sub(-1) == 'C' and #sizes or 2]
    local filter, size = {}, channels
    for _, k in ipairs(kernel) do size = size * k end
    for k = 1, size do filter[k] = 1 end
    local means = x:op('Div', { channels_second(x, n, n[2]), x:constant(d, joined({ 1, 1 }, outs), counts) })
    return channels_back(x, n, x:op('ConvTranspose', { means, x:constant(d, joined({ channels, 1 }, kernel), filter) },
      { strides = L(strides), pads = L(pads), output_padding = L(more), group = I(channels) }))
  end
  M.AvgPool3DGrad = M.AvgPoolGrad

  -- ---- filters ------------------------------------------------------------------------------------------------------
  --- v with its channels first and the examples second.
  local function examples_second(x, n, v)
    local rank = #n.attr 'strides'
    local last = n.attr 'data_format':sub(-1) == 'C'
    return x:op('Transpose', { v }, { perm = L(last and joined({ rank - 1, 0 }, from_to(1, rank - 2))
                                               or joined({ 1, 0 }, from_to(2, rank - 1))) })
  end

  --- A convolution of the input by the gradients, whose stride is the dilation and the other way round: [ci, co,
  --- places…], or, by groups, [1, co, places…].
  local function of_filter(x, n, input, dy, kernel, group)
    local list, pads = reaches(n, places_of(n, n:shape(1) or {}), places_of(n, n:shape(3) or {}), kernel)
    local strides = places_of(n, n.attr 'strides')
    local y = x:op('Conv', { input, dy }, { strides = L(places_of(n, n.attr 'dilations')), dilations = L(strides),
        pads = L(pads), group = group })
    local from, to, axes = {}, {}, {}
    for i in ipairs(list) do from[i], to[i], axes[i] = 0, kernel[i], i + 1 end
    return x:op('Slice', { y, x:ints(from), x:ints(to), x:ints(axes) })          -- what the window never reached
  end

  --- (input, sizes of the filter, gradients)
  function M.Conv2DBackpropFilter(x, n)
    local rank, sizes, shape = #n.attr 'strides', n:numbers(2), n:shape(1)
    check_floats(n, n:d(1))
    if not sizes or not shape then n:refuse 'the sizes of its filter are known only when it runs' end
    local channels = shape[n.attr 'data_format':sub(-1) == 'C' and rank or 2]
    if sizes[rank - 1] ~= channels then n:refuse 'its channels go in groups, or are not known' end
    local y = of_filter(x, n, examples_second(x, n, n[1]), examples_second(x, n, n[3]), sizes)
    return x:op('Transpose', { y }, { perm = L(joined(from_to(2, rank - 1), { 0, 1 })) })
  end
  M.Conv3DBackpropFilterV2 = M.Conv2DBackpropFilter

  --- The same, each channel by itself.
  function M.DepthwiseConv2dNativeBackpropFilter(x, n)
    local sizes, shape = n:numbers(2), n:shape(1)
    check_floats(n, n:d(1))
    if not sizes or not shape then n:refuse 'the sizes of its filter are known only when it runs' end
    local all = places_of(n, shape)
    if all[1] < 0 or all[2] < 0 then n:refuse 'the sizes of its input are known only when it runs' end
    local input = x:op('Reshape', { examples_second(x, n, n[1]), x:ints(joined({ 1, -1 }, all)) })
    local y = of_filter(x, n, input, examples_second(x, n, n[3]), sizes, I(sizes[3]))
    return x:op('Transpose', { x:op('Reshape', { y, x:ints{ sizes[3], sizes[4], sizes[1], sizes[2] } }) },
                { perm = L{ 2, 3, 0, 1 } })
  end

  --- (sizes of the input, filter, gradients)
  function M.DepthwiseConv2dNativeBackpropInput(x, n)
    local sizes, filter = n:numbers(1), n:shape(2)
    check_floats(n, n:d(2))
    if not sizes or not filter or filter[3] < 0 or filter[4] < 0 then
      n:refuse 'the sizes of what it makes are known only when it runs'
    end
    local _, pads, more = reaches(n, places_of(n, sizes), places_of(n, n:shape(3) or {}), filter)
    local turned = x:op('Reshape', { x:op('Transpose', { n[2] }, { perm = L{ 2, 3, 0, 1 } }),
        x:ints{ filter[3] * filter[4], 1, filter[1], filter[2] } })
    return channels_back(x, n, x:op('ConvTranspose', { channels_second(x, n, n[3]), turned },
      { strides = L(places_of(n, n.attr 'strides')), dilations = L(places_of(n, n.attr 'dilations')), pads = L(pads),
        output_padding = L(more),
        group = I(filter[3]) }))
  end
end
