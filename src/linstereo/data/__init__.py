"""Reading and writing the files of stereo vision, and the datasets made of them."""
