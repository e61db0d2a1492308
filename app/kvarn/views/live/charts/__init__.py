"""Charts over one shared time axis: they draw the frames they are given and compute nothing."""
