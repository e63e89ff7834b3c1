//! Nodes compared with `dtc`'s, nodes that are refused, and the trees that nodes are taken from.

mod devices;
mod folder;
mod golden;
mod hostile;
mod overlay;
mod refused;
mod round_trip;
mod samples;
