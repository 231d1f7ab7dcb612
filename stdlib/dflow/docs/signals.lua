--- The pages of df.signal. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.signal
  Signals cut into frames, windows, transforms in time, mel scales, under the names of TensorFlow 1's
  tf.signal. The ops of df are here, too: df.signal.rfft is df.rfft.
  example   df.signal.rfft == df.rfft

df.signal.frame(signal, frame_length, frame_step, pad_end?, pad_value?, axis?, {…})
  [..., frames, frame_length]: parts of the signal, each frame_step behind the one before it.
  option    pad_end: bool = false  frames begin up to the end, and are filled behind it
  option    pad_value: number = 0  what they are filled with
  option    axis: int = -1  along which the signal goes
@name
  example   df.signal.frame({1, 2, 3, 4, 5}, 3, 2)

df.signal.overlap_and_add(signal, frame_step)
  The sum of frames [..., frames, frame_length], each frame_step behind the one before it.
  example   df.signal.overlap_and_add({{1, 1, 1}, {2, 2, 2}}, 2)

df.signal.stft(signals, frame_length, frame_step, fft_length?, window_fn?, pad_end?, {…})
  complex[..., frames, fft_length / 2 + 1]: the transform of each frame, under a window.
  option    fft_length: int = nil  the least power of two that a frame fits into
  option    window_fn: function = nil  fn(length, {dtype}); Hann's unless it is given, false for none
  option    pad_end: bool = false  as of df.signal.frame
@name
  example   df.signal.stft(df.ones{100}, 16, 8).shape

df.signal.inverse_stft(stfts, frame_length, frame_step, fft_length?, window_fn?, {…})
  The signal of transforms of frames: what they give back, under a window, added up.
  option    fft_length: int = nil  as of df.signal.stft
  option    window_fn: function = nil  as of df.signal.stft; what gives back what there was is
              df.signal.inverse_stft_window_fn
@name
  example   df.signal.inverse_stft(df.signal.stft(df.ones{64}, 16, 8), 16, 8).shape

df.signal.inverse_stft_window_fn(frame_step, forward_window_fn?)
  A window_fn for df.signal.inverse_stft that undoes forward_window_fn, Hann's unless it is given.
  example   df.signal.inverse_stft_window_fn(2)(4)

df.signal.hann_window(window_length, periodic?, dtype?)
  A raised cosine. Periodic unless told false: the first part of one that is one longer.
  example   df.signal.hann_window(4)

df.signal.hamming_window(window_length, periodic?, dtype?)
  A raised cosine that does not end in 0.
  example   df.signal.hamming_window(4)

df.signal.vorbis_window(window_length, dtype?)
  The window of Vorbis's sound.
  example   df.signal.vorbis_window(4)

df.signal.kaiser_window(window_length, beta?, dtype?)
  Kaiser's window; the larger beta (12 unless it is given), the narrower.
  example   df.signal.kaiser_window(5, 4)

df.signal.fftshift(x, axes?)
  The frequency 0 goes to the middle of the axes, all unless they are given.
  example   df.signal.fftshift({0, 1, 2, 3, 4})

df.signal.ifftshift(x, axes?)
  The way back from df.signal.fftshift.
  example   df.signal.ifftshift({3, 4, 0, 1, 2})

df.signal.dct(input, type?, n?, axis?, norm?)
  The cosine transform of type 1 to 4 along the last axis, 2 unless it is given; n makes the axis as
  long. norm is 'ortho', or nil.
  example   df.signal.dct{1.0, 0.0, 0.0}

df.signal.idct(input, type?, n?, axis?, norm?)
  The way back from df.signal.dct of that type, but for a factor without norm 'ortho'.
  example   df.signal.idct({1.0, 0.0, 0.0}, {norm = 'ortho'})

df.signal.linear_to_mel_weight_matrix(num_mel_bins, num_spectrogram_bins?, sample_rate?, lower_edge_hertz?, upper_edge_hertz?, dtype?)
  [num_spectrogram_bins, num_mel_bins]: what turns the bins of a transform into bands as wide as they
  sound. 129 bins, 8000, 125 and 3800 unless they are given.
  example   df.signal.linear_to_mel_weight_matrix(2, 4)

df.signal.mfccs_from_log_mel_spectrograms(log_mel_spectrograms)
  The cepstrum of logarithms of mel bands.
  example   df.signal.mfccs_from_log_mel_spectrograms({{1.0, 0.0, 0.5}})
]==]
