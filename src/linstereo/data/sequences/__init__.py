"""Sequences of stereo frames, read one after the other: folders of images, videos, cameras and ROS bags."""
