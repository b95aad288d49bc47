"""ZooKeeper: one session, and the format of the nodes that TARN keeps there."""

from tarn.zk.nodes import INSTANCES, FleetNode, InstanceNode, fleet_path, instance_payload

__all__ = ["INSTANCES", "FleetNode", "InstanceNode", "fleet_path", "instance_payload"]
