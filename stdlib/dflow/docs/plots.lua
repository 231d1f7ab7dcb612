--- The pages of df.plot. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.plot(y, {…})
  Numbers as a line, in the terminal (its tostring) and as SVG (p:save 'y.svg'). y is numbers, a
  list of such, or {name = numbers}, as tables, Tensors or Outputs. df.plot.line, df.plot.scatter,
  df.plot.histogram, df.plot.heatmap and df.plot.image are the kinds. At the prompt: :plot y.
  option    title: string = nil  above it
  option    xlabel: string = nil  below the SVG
  option    ylabel: string = nil  at the side of the SVG
  option    log: string = nil  'x', 'y' or 'xy': these axes are logarithmic
  option    zero: bool = false  the y axis begins at 0
  option    points: bool = false  a dot at each point of the SVG's lines
  example   df.plot({1, 4, 9, 16}):text{columns = 12, rows = 4, ascii = true}

df.plot.line(x, y, {…})
  y over x, lines between the points; without x, over 0, 1, 2 and so on. A NaN ends a line.
  option    title: string = nil  above it
  option    xlabel: string = nil  below the SVG
  option    ylabel: string = nil  at the side of the SVG
  option    log: string = nil  'x', 'y' or 'xy': these axes are logarithmic
  option    zero: bool = false  the y axis begins at 0
  option    points: bool = false  a dot at each point of the SVG's lines
  example   df.plot.line({0, 1, 4}, {2, 1, 0}):text{columns = 12, rows = 4, ascii = true}

df.plot.scatter(x, y, {…})
  A dot for each pair.
  option    title: string = nil  above it
  option    xlabel: string = nil  below the SVG
  option    ylabel: string = nil  at the side of the SVG
  option    log: string = nil  'x', 'y' or 'xy': these axes are logarithmic
  option    zero: bool = false  the y axis begins at 0
  option    points: bool = false  a dot at each point of the SVG's lines
  example   df.plot.scatter({1, 2, 3}, {1, 4, 9}):text{columns = 12, rows = 4, ascii = true}

df.plot.histogram(values, {…})
  How many values, of any shape, fall into each of `bins` equally wide parts of their range.
  option    bins: int = 20  how many
  option    title: string = nil  above it
  option    xlabel: string = nil  below the SVG
  option    ylabel: string = nil  at the side of the SVG
  example   df.plot.histogram({1, 2, 2, 3, 3, 3}, {bins = 3}):text{columns = 12, rows = 3, ascii = true}

df.plot.heatmap(m, {…})
  A cell for each element of a matrix [rows, columns], darker for greater.
  option    title: string = nil  above it
  example   df.plot.heatmap{{0, 1}, {2, 3}}:text{columns = 4, rows = 2, ascii = true}

df.plot.image(t, {…})
  A picture [height, width] or [height, width, channels]: 1 grey, 3 red, green and blue, 2 and 4 with
  alpha besides, on white. uint8 as it is, floats from 0 to 1, anything else from its least to its
  greatest. Its pixels are squares.
  option    title: string = nil  above it
  example   df.plot.image{{0, 1}, {1, 0}}:text{columns = 4, rows = 2, ascii = true}
]==]
