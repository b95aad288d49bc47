"""dev"""
from pathlib import Path
import pytest
from house import until, ids
from yarn_fleet import Fleet
from yarn_stage import Hadoop, YarnHouse, context
pytestmark=[pytest.mark.yarn, pytest.mark.triton]

@pytest.mark.timeout(300)
def test_dev(tmp_path):
    k=Hadoop(Path('/work/tmp/KB/sandbox'), context())
    one=YarnHouse(tmp_path,k)
    try:
        Path(k.environ["KRB5CCNAME"].removeprefix("FILE:")).unlink(missing_ok=True)
        f=Fleet(one,k,"lasting")
        kt=str(k.directory/'data/kerberos/user.keytab')
        spec=one.spec("lasting",options={"kerberos":{"principal":"root","keytab":kt}}, replicas={"min":1,"max":3,"initial":1})
        done=one.tarn("up","-f",spec,"--timeout","120s",timeout_s=150)
        print(done.stderr)
        assert done.returncode==0
        print(f.tarn("status"))
        until(lambda: False if 'ended at' not in f.tarn("status") else True, 90)
        f.tarn("scale","2"); f.settled(2)
        f.after(f.kill_master())
        f.tarn("scale","3"); f.settled(3)
        print(f.tarn("status"))
        print(f.tarn("logs"))
    finally:
        one.clear()
