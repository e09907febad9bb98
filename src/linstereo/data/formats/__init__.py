"""The files of stereo vision: images, disparity and depth maps, calibrations; one module per format."""
