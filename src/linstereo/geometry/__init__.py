"""The geometry of a rectified stereo camera: calibration and the way between disparity and depth."""
