"""What `tarn doctor` looks at in a YARN and its HDFS, without a submission."""
