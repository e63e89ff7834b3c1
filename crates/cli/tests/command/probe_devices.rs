//! `vmbell probe --devices` on hosts that are made of folders, and on this host.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::common::{json, stdout, vmbell};
use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::{contains, is_empty};

const BRIDGE: &str = "0000:00:01.0";
const NIC: &str = "0000:00:03.0";
const DISK: &str = "0000:00:04.0";

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn link(root: &Path, file: &str, target: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(target, path).unwrap();
}

fn pci(root: &Path, name: &str, class: &str, driver: &str) {
    let device = format!("sys/bus/pci/devices/{name}");
    write(root, &format!("{device}/vendor"), "0x8086\n");
    write(root, &format!("{device}/device"), "0x10d3\n");
    write(root, &format!("{device}/class"), class);
    write(root, &format!("{device}/reset_method"), "flr\n");
    write(root, &format!("sys/bus/pci/drivers/{driver}/bind"), "");
    let target = format!("../../drivers/{driver}");
    link(root, &format!("{device}/driver"), &target);
    link(root, &format!("{device}/subsystem"), "../../../pci");
}

fn group(root: &Path, name: &str, number: u32) {
    let place = format!("sys/kernel/iommu_groups/{number}/devices/{name}");
    link(root, &place, &format!("../../../../bus/pci/devices/{name}"));
    let place = format!("sys/bus/pci/devices/{name}/iommu_group");
    link(root, &place, &format!("../../iommu_groups/{number}"));
}

/// A bridge, a NIC and a disk, without an IOMMU.
fn host() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    pci(root, BRIDGE, "0x060400\n", "pcieport");
    pci(root, NIC, "0x020000\n", "e1000e");
    pci(root, DISK, "0x010802\n", "nvme");
    write(root, "sys/bus/pci/drivers/vfio-pci/bind", "");
    write(root, "proc/cpuinfo", "vendor_id : GenuineIntel\n");
    write(root, "sys/firmware/acpi/tables/DMAR", "");
    folder
}

fn probe(root: &Path, more: &[&str]) -> Command {
    let mut command = vmbell("probe --devices");
    command.args(more).arg("--root").arg(root);
    command
}

#[test]
fn a_host_without_an_iommu_is_told_so_once_with_the_option() {
    let host = host();
    let text = stdout(&mut probe(host.path(), &[]));
    assert!(
        text.contains("nothing can be assigned: no iommu group: the kernel does not use the iommu"),
        "{text}"
    );
    assert!(text.contains("0000:00:03.0, 0000:00:04.0\n"), "{text}");
    assert_eq!(text.matches("intel_iommu=on to the").count(), 1, "{text}");
    assert!(!text.contains("unbind"), "of no use yet: {text}");
    assert!(text.contains("bridges (1)"), "{text}");
}

#[test]
fn each_device_has_the_commands_that_mend_it() {
    let host = host();
    group(host.path(), NIC, 3);
    group(host.path(), DISK, 4);
    probe(host.path(), &[])
        .assert()
        .success()
        .stderr(is_empty())
        .stdout(
            contains("nothing can be assigned yet")
                .and(contains("8086:10d3 class 020000  e1000e"))
                .and(contains(
                    "echo vfio-pci > /sys/bus/pci/devices/0000:00:03.0/driver_override",
                ))
                .and(contains(
                    "echo 0000:00:04.0 > /sys/bus/pci/devices/0000:00:04.0/driver/unbind",
                )),
        );
}

#[test]
fn a_device_that_is_ready_needs_nothing() {
    let host = host();
    let root = host.path();
    group(root, NIC, 3);
    let driver = format!("sys/bus/pci/devices/{NIC}/driver");
    fs::remove_file(root.join(&driver)).unwrap();
    link(root, &driver, "../../drivers/vfio-pci");
    write(root, "dev/vfio/vfio", "");
    write(root, "dev/vfio/3", "");
    let text = stdout(&mut probe(root, &["00:03.0"]));
    assert!(text.contains("vfio-pci  3      ready\n"), "{text}");
    assert!(text.ends_with("1 of 1 can be assigned\n"), "{text}");
}

#[test]
fn json_has_every_obstacle() {
    let host = host();
    let answer = json(&mut probe(host.path(), &["--json"]));
    let devices = answer["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 2);
    assert_eq!(devices[0]["id"], "8086:10d3");
    assert_eq!(devices[0]["reset"][0], "flr");
    assert_eq!(devices[0]["ready"], false);
    let obstacles = devices[0]["obstacles"].as_array().unwrap();
    let names: Vec<_> = obstacles.iter().map(|obstacle| &obstacle["name"]).collect();
    assert_eq!(names, ["no iommu group", "driver bound"]);
    assert_eq!(answer["left_out"]["bridges"], 1);
}

#[test]
fn a_named_device_is_shown_alone_and_one_that_is_not_there_is_an_error() {
    let host = host();
    let text = stdout(&mut probe(host.path(), &["00:01.0"]));
    assert!(text.contains("the device is a bridge"), "{text}");
    assert!(!text.contains(NIC), "{text}");
    probe(host.path(), &["00:05.0"])
        .assert()
        .code(1)
        .stderr(contains("did you mean 0000:00:01.0 or"));
}

#[test]
fn this_host_is_probed_without_an_error() {
    vmbell("probe --devices")
        .assert()
        .success()
        .stderr(is_empty())
        .stdout(contains("can be assigned"));
    let answer = json(&mut vmbell("probe --devices --json"));
    assert!(answer["devices"].is_array());
}
