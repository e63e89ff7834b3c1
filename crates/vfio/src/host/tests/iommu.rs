//! Why there is no IOMMU group.

use super::super::{Bus, NoIommu, Obstacle};
use super::fake::{Fake, NIC};

const INTEL: &str = "processor : 0\nvendor_id\t: GenuineIntel\n";
const AMD: &str = "processor : 0\nvendor_id\t: AuthenticAMD\n";
const ARM: &str = "processor : 0\nCPU implementer\t: 0x41\n";

fn cause(fake: &Fake) -> NoIommu {
    let obstacles = fake.obstacles(NIC);
    let [Obstacle::NoIommuGroup { cause }, ..] = obstacles.as_slice() else {
        panic!("{obstacles:?}");
    };
    cause.clone()
}

fn host(cpu: &str) -> Fake {
    let fake = Fake::new();
    fake.nic().write("proc/cpuinfo", cpu);
    fake
}

#[test]
fn intel_needs_an_option_and_a_table_of_the_firmware() {
    let fake = host(INTEL);
    assert_eq!(cause(&fake), NoIommu::IntelNotDescribed);
    fake.write("sys/firmware/acpi/tables/DMAR", "");
    assert_eq!(cause(&fake), NoIommu::IntelOptionMissing);
    fake.write("proc/cmdline", "quiet intel_iommu=on,sm_on iommu=pt\n");
    assert_eq!(cause(&fake), NoIommu::Unknown);
}

#[test]
fn amd_needs_a_table_of_the_firmware() {
    let fake = host(AMD);
    assert_eq!(cause(&fake), NoIommu::AmdNotDescribed);
    fake.write("sys/firmware/acpi/tables/IVRS", "");
    assert_eq!(cause(&fake), NoIommu::Unknown);
}

#[test]
fn arm_needs_a_driver_of_the_smmu() {
    assert_eq!(cause(&host(ARM)), NoIommu::ArmNoSmmu);
}

#[test]
fn an_option_that_turns_the_iommu_off_is_named() {
    let fake = host(AMD);
    fake.write("proc/cmdline", "quiet amd_iommu=off ro\n");
    let option = "amd_iommu=off".to_owned();
    assert_eq!(cause(&fake), NoIommu::TurnedOff { option });
}

#[test]
fn a_device_that_the_iommu_does_not_serve_is_told_from_a_host_without() {
    let fake = host(INTEL);
    fake.pci("0000:00:04.0", 0x02_0000)
        .group(Bus::Pci, "0000:00:04.0", 1);
    assert_eq!(cause(&fake), NoIommu::NotServed);
}

#[test]
fn a_group_of_the_unsafe_mode_is_none() {
    let fake = Fake::ready();
    assert_eq!(fake.obstacles(NIC), []);
    fake.write("sys/kernel/iommu_groups/7/name", "vfio-noiommu\n");
    assert_eq!(cause(&fake), NoIommu::UnsafeMode);
}
