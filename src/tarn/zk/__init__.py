"""ZooKeeper: one session, and the format of the nodes that TARN keeps there."""

from tarn.zk.nodes import FleetNode, InstanceNode, fleet_path, instance_payload

__all__ = ["FleetNode", "InstanceNode", "fleet_path", "instance_payload"]
