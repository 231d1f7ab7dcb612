--- The pages of df.plot. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.plot(y, {…})
  Plots numbers as a line. tostring draws it in the terminal, p:save 'y.svg' writes an SVG. y is a list of
  numbers, a list of such lists, or {name = numbers}, as tables, Tensors or Outputs. Other kinds are
  df.plot.line, df.plot.scatter, df.plot.histogram, df.plot.heatmap and df.plot.image. At the prompt:
  :plot y.
@labels
@axes
  example   df.plot({1, 4, 9, 16}):text{columns = 12, rows = 4, ascii = true}

df.plot.line(x, y, {…})
  Plots y over x, with lines between the points. Without x, x is 0, 1, 2 and so on. A NaN ends a line.
@labels
@axes
  example   df.plot.line({0, 1, 4}, {2, 1, 0}):text{columns = 12, rows = 4, ascii = true}

df.plot.scatter(x, y, {…})
  Plots a dot for each pair.
@labels
@axes
  example   df.plot.scatter({1, 2, 3}, {1, 4, 9}):text{columns = 12, rows = 4, ascii = true}

df.plot.histogram(values, {…})
  Plots how many values, of any shape, lie in each of `bins` equal parts of their range.
  option    bins: int = 20  the number of parts
@labels
  example   df.plot.histogram({1, 2, 2, 3, 3, 3}, {bins = 3}):text{columns = 12, rows = 3, ascii = true}

df.plot.heatmap(m, {…})
  Plots a cell for each element of a matrix [rows, columns]; greater elements are darker.
  option    title: string = nil  a text above the picture
  example   df.plot.heatmap{{0, 1}, {2, 3}}:text{columns = 4, rows = 2, ascii = true}

df.plot.image(t, {…})
  Shows a picture [height, width] or [height, width, channels]: 1 channel is grey, 3 are red, green and
  blue; 2 and 4 have alpha, on white. uint8 values are shown unchanged, floats from 0 to 1, and other
  values scaled from their minimum to their maximum.
  option    title: string = nil  a text above the picture
  example   df.plot.image{{0, 1}, {1, 0}}:text{columns = 4, rows = 2, ascii = true}
]==]
