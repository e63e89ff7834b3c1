//! The host in a temporary folder.

mod access;
mod fake;
mod find;
mod garbage;
mod iommu;
mod obstacles;
mod reading;
