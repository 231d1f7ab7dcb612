"""Makes the pictures beside it, by Pillow: python make.py. The same 4 x 3 picture, RGB, gray, with alpha and a palette."""
from PIL import Image
rgb = [[(80 * x, 100 * y, 250 - 50 * x) for x in range(4)] for y in range(3)]
im = Image.new('RGB', (4, 3))
for y in range(3):
    for x in range(4): im.putpixel((x, y), rgb[y][x])
im.save('rgb.png'); im.save('rgb.ppm')
im.convert('P', palette=Image.ADAPTIVE).save('palette.png')
im.convert('L').save('gray.png'); im.convert('L').save('gray.pgm'); im.convert('1').save('bits.pbm')
a = im.convert('RGBA'); a.putpixel((0, 0), (1, 2, 3, 4)); a.save('alpha.png')
flat = Image.new('RGB', (16, 8), (200, 100, 50)); flat.save('flat.jpg', quality=95); flat.convert('L').save('gray.jpg')
