-- cannon.lua: aims a cannon by the gradient of a simulation.
--
-- The shot flies through air until it is below the ground: a while_loop of as many steps as it takes. Where it lands
-- depends on the angle, so gradients gives d(distance)/d(angle) through all of those steps, and Newton does the rest.
-- Look at how many steps a flight takes, which no angle says beforehand: the gradient's loop goes back over as many.
local df = require 'dflow'

local TARGET = tonumber((...)) or 60
local SPEED, DRAG, DT, G = 30, 0.005, 0.01, 9.81

local angle = df.Variable(0.3, { name = 'angle', dtype = 'float64' })

-- One step of Euler's method: position, velocity.
local function fly(s)
  local slow = DRAG * df.sqrt(s.vx * s.vx + s.vy * s.vy)
  return {
    steps = s.steps + 1,
    x = s.x + DT * s.vx,
    y = s.y + DT * s.vy,
    vx = s.vx - DT * slow * s.vx,
    vy = s.vy - DT * (G + slow * s.vy),
  }
end

local a = angle:value()
local landed = df.while_loop(
  function(s) return s.y:ge(0) end, fly,
  { steps = df.int32(0), x = df.float64(0), y = df.float64(0), vx = SPEED * df.cos(a), vy = SPEED * df.sin(a) })

-- The last step ended below the ground: go back along it to where it crossed.
local distance = landed.x - landed.y * landed.vx / landed.vy
local slope = df.gradients(distance, angle)
local aim = angle:assign_add((TARGET - distance) / slope)

print(('target at %g m'):format(TARGET))
for shot = 1, 10 do
  local steps, at, degrees, per_degree =
    df.unpack(df.run{ landed.steps, distance, angle:value() * (180 / math.pi), slope * (math.pi / 180) })
  print(('shot %d  at %6.3f°  lands at %7.4f m after %3d steps  (%+.3f m per degree)')
    :format(shot, degrees, at, steps, per_degree))
  if math.abs(at - TARGET) < 1e-4 then break end
  df.run(aim)
end
