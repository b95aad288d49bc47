"""Steps of the Docker tests' image that otherwise run only where no image is in the cache."""

from servers.docker_image import keep_root_only


def test_only_root_stays_among_the_accounts_and_no_file_stays_open(tmp_path):
    root = "root:x:0:0:root:/root:/bin/bash\n"
    for name in ("passwd", "shadow"):
        (tmp_path / name).write_text(f"{root}daemon:x:1:1::/:/bin/sh\nrooter:x:9:9::/:/bin/sh\n")
    keep_root_only(tmp_path)  # a file that it left open would warn here, and that is an error
    assert {(tmp_path / name).read_text() for name in ("passwd", "shadow")} == {root}
