--- The pages of df.image. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.image
  Pictures [height, width, channels], or [batch, height, width, channels], under the names of
  TensorFlow 1's tf.image. Integers have the values of their dtype, floats those from 0 to 1. The ops
  of df are here, too: df.image.resize_bilinear is df.resize_bilinear.
  example   df.image.resize_bilinear == df.resize_bilinear

df.image.resize(images, size, method?, align_corners?, preserve_aspect_ratio?, {…})
  Pictures in another height and width, float32 but with method 'nearest', or where they have this
  size already. resize_images is its long name.
  option    method: string = 'bilinear'  or 'nearest', 'bicubic', 'area'
  option    align_corners: bool = false  the first and the last pixels stay where they are
  option    half_pixel_centers: bool = false  as TensorFlow 2 places pixels
  option    preserve_aspect_ratio: bool = false  as large as fits into size
@name
  gradient  what each pixel gave to those of the new picture; none with method 'area'
  example   df.image.resize(df.ones{4, 6, 3}, {2, 9}).shape

df.image.resize_with_pad(image, target_height, target_width, method?, align_corners?, {…})
  The picture as large as fits, in the middle of zeros. resize_image_with_pad is its long name.
  option    method: string = 'bilinear'  as of df.image.resize
  option    align_corners: bool = false  as of df.image.resize
  option    half_pixel_centers: bool = false  as of df.image.resize
@name
  example   df.squeeze(df.image.resize_with_pad(df.ones{2, 2, 1}, 2, 4))

df.image.resize_with_crop_or_pad(image, target_height, target_width)
  The middle of the picture; zeros around it where it is too small. resize_image_with_crop_or_pad is
  its long name.
  example   df.squeeze(df.image.resize_with_crop_or_pad(df.ones{3, 1, 1}, 1, 3))

df.image.crop_to_bounding_box(image, offset_height, offset_width, target_height, target_width)
  A part of the picture. Error: it does not lie in it.
  example   df.image.crop_to_bounding_box(df.ones{4, 6, 3}, 1, 2, 2, 3).shape

df.image.pad_to_bounding_box(image, offset_height, offset_width, target_height, target_width)
  The picture with zeros around it. Error: it does not fit.
  example   df.squeeze(df.image.pad_to_bounding_box(df.ones{1, 1, 1}, 0, 1, 2, 3))

df.image.central_crop(image, central_fraction)
  The middle of the picture, a part of its height and width.
  example   df.image.central_crop(df.ones{8, 6, 3}, 0.5):eval().shape

df.image.flip_left_right(image)
  The picture in a mirror.
  example   df.squeeze(df.image.flip_left_right({{{1}, {2}}}))

df.image.flip_up_down(image)
  The picture on its head, in a mirror.
  example   df.squeeze(df.image.flip_up_down({{{1}}, {{2}}}))

df.image.random_flip_left_right(image, {…})
  The picture, or in a mirror: each of a batch by itself, every other one on average.
@seed
  example   df.image.random_flip_left_right(df.ones{4, 6, 3}).shape

df.image.random_flip_up_down(image, {…})
  The picture, or on its head: each of a batch by itself.
@seed
  example   df.image.random_flip_up_down(df.ones{4, 6, 3}).shape

df.image.transpose(image)
  Rows become columns. transpose_image is its long name.
  example   df.image.transpose(df.ones{4, 6, 3}).shape

df.image.rot90(image, k?)
  The picture turned by k quarters, against the clock; 1 unless it is given.
  example   df.squeeze(df.image.rot90({{{1}, {2}}}))

df.image.adjust_brightness(image, delta)
  The picture and delta, which is in the values of floats: 0.1 is a tenth of white.
  example   df.image.adjust_brightness({0.25, 0.5}, 0.125)

df.image.adjust_contrast(image, contrast_factor)
  (x - mean) * contrast_factor + mean, where mean is that of a channel of a picture.
  example   df.squeeze(df.image.adjust_contrast({{{0.25}, {0.75}}}, 2))

df.image.adjust_hue(image, delta)
  The picture with its hues turned by delta, of which 1 is all the way round.
  gradient  none: there is none for AdjustHue
  example   df.image.adjust_hue({1.0, 0.0, 0.0}, 0.5)

df.image.adjust_saturation(image, saturation_factor)
  The picture with its saturation times a factor: 0 makes it gray.
  gradient  none: there is none for AdjustSaturation
  example   df.image.adjust_saturation({1.0, 0.5, 0.5}, 2)

df.image.adjust_gamma(image, gamma?, gain?)
  gain * x ^ gamma; both are 1 unless they are given.
  example   df.image.adjust_gamma({0.25, 0.5}, 2)

df.image.random_brightness(image, max_delta, {…})
  df.image.adjust_brightness by a number between -max_delta and max_delta.
@seed
  example   df.image.random_brightness(df.ones{4, 6, 3}, 0.1).shape

df.image.random_contrast(image, lower, upper, {…})
  df.image.adjust_contrast by a number between lower and upper.
@seed
  example   df.image.random_contrast(df.ones{4, 6, 3}, 0.8, 1.2).shape

df.image.random_hue(image, max_delta, {…})
  df.image.adjust_hue by a number between -max_delta and max_delta, which is 0.5 at most.
@seed
  gradient  none: there is none for AdjustHue
  example   df.image.random_hue(df.ones{4, 6, 3}, 0.1).shape

df.image.random_saturation(image, lower, upper, {…})
  df.image.adjust_saturation by a number between lower and upper.
@seed
  gradient  none: there is none for AdjustSaturation
  example   df.image.random_saturation(df.ones{4, 6, 3}, 0.8, 1.2).shape

df.image.rgb_to_grayscale(images)
  One channel: how bright red, green and blue look together.
  example   df.image.rgb_to_grayscale({1.0, 0.5, 0.0})

df.image.grayscale_to_rgb(images)
  The one channel three times.
  example   df.image.grayscale_to_rgb({{0.5}})

df.image.rgb_to_yiq(images)
  Red, green and blue as brightness and the two colours of old American television.
  example   df.image.rgb_to_yiq({1.0, 0.5, 0.0})

df.image.yiq_to_rgb(images)
  The way back from df.image.rgb_to_yiq.
  example   df.image.yiq_to_rgb({0.5, 0.0, 0.0})

df.image.rgb_to_yuv(images)
  Red, green and blue as brightness and two colours, as films have them.
  example   df.image.rgb_to_yuv({1.0, 0.5, 0.0})

df.image.yuv_to_rgb(images)
  The way back from df.image.rgb_to_yuv.
  example   df.image.yuv_to_rgb({0.5, 0.0, 0.0})

df.image.convert_image_dtype(image, dtype, saturate?)
  The picture in another dtype, black and white staying what they are: 255 of uint8 is 1 of floats.
  With saturate what does not fit becomes the nearest that does.
  example   df.image.convert_image_dtype({0.0, 0.5, 1.0}, 'uint8')

df.image.per_image_standardization(image)
  (x - mean) / deviation of each picture; the deviation is one over the root of the number of its
  elements at least.
  example   df.squeeze(df.image.per_image_standardization({{{1.0}, {3.0}}}))

df.image.total_variation(images)
  The sum of the differences between neighbours, one for each picture.
  example   df.image.total_variation({{{1.0}, {3.0}}})

df.image.image_gradients(image)
  Two results: the differences down the rows and along the columns of pictures [batch, height, width,
  channels]; 0 in the last ones.
  example   (df.squeeze((df.image.image_gradients({{{{1.0}}, {{3.0}}}}))))

df.image.sobel_edges(image)
  [batch, height, width, channels, 2]: how steep pictures are, down and along, by Sobel's filters.
  example   df.image.sobel_edges(df.ones{1, 4, 6, 3}).shape

df.image.psnr(a, b, max_val)
  How much larger max_val is than the difference between two pictures, in decibels.
  example   df.image.psnr(df.zeros{2, 2, 1}, df.fill({2, 2, 1}, 0.1), 1)

df.image.ssim(a, b, max_val, {…})
  How alike two pictures are in structure: 1 where they are the same.
  option    filter_size: int = 11  of the window, pixels
  option    filter_sigma: number = 1.5  how wide the bell in it is
  option    k1: number = 0.01  keeps dark pictures from mattering too much
  option    k2: number = 0.03  and even ones
@name
  example   df.image.ssim(df.ones{12, 12, 1}, df.ones{12, 12, 1}, 1)

df.image.resize_images(images, size, method?, align_corners?, preserve_aspect_ratio?)
  The long name of df.image.resize.
  example   df.image.resize_images == df.image.resize

df.image.resize_image_with_pad(image, target_height, target_width, method?, align_corners?)
  The long name of df.image.resize_with_pad.
  example   df.image.resize_image_with_pad == df.image.resize_with_pad

df.image.resize_image_with_crop_or_pad(image, target_height, target_width)
  The long name of df.image.resize_with_crop_or_pad.
  example   df.image.resize_image_with_crop_or_pad == df.image.resize_with_crop_or_pad

df.image.transpose_image(image)
  The long name of df.image.transpose.
  example   df.image.transpose_image == df.image.transpose
]==]
