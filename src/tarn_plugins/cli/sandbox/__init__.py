"""`tarn sandbox`: a small YARN with HDFS on this machine."""
