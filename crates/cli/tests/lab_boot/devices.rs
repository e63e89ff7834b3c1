//! `--device` with real boots. L1 has no tools, so this test binary is also the program that runs in it.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::boots::{lab, output, text};

/// Set in L1.
const INSIDE: &str = "VMBELL_TEST_INSIDE";

const EDU: &str = "0000:00:03.0";
const E1000E: &str = "0000:00:04.0";
/// `ETH_P_802_EX1`, an experimental protocol that no other program uses.
const EXPERIMENT: u16 = 0x88b5;

/// A test of this binary that runs in L1, with these options.
struct InL1 {
    options: &'static [&'static str],
    test: &'static str,
}

const FUNCTIONAL: InL1 = InL1 {
    options: &["--device", "edu,driver=none", "--device", "e1000e"],
    test: "devices::a_device_without_a_driver_can_be_bound_by_hand_beside_one_that_is_ready",
};
const DETERMINISTIC: InL1 = InL1 {
    options: &["--device", "edu", "--device", "e1000e", "--deterministic"],
    test: "devices::devices_are_ready_to_be_assigned_and_the_network_card_has_a_peer",
};

impl InL1 {
    fn passes(&self) {
        let own = std::env::current_exe().unwrap();
        let mut command = lab(self.options);
        command
            .args(["--env", &format!("{INSIDE}=1"), "--"])
            .arg(own)
            .args(["--ignored", "--nocapture", "--exact", self.test]);
        let output = output(&mut command);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("test result: ok. 1 passed"), "{said}");
    }
}

fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

fn device(address: &str) -> PathBuf {
    Path::new("/sys/bus/pci/devices").join(address)
}

/// The name of the folder to which a link of the device leads.
fn linked(address: &str, link: &str) -> Option<String> {
    let target = fs::read_link(device(address).join(link)).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}

fn id(address: &str) -> [String; 2] {
    ["vendor", "device"].map(|name| {
        let text = fs::read_to_string(device(address).join(name)).unwrap();
        text.trim().to_owned()
    })
}

/// Asserts that the group has no other device, and returns the group's node in /dev/vfio.
fn own_group(address: &str) -> PathBuf {
    let members = device(address).join("iommu_group/devices");
    let members: Vec<_> = fs::read_dir(members)
        .unwrap()
        .map(|item| item.unwrap().file_name())
        .collect();
    assert_eq!(members, [address]);
    Path::new("/dev/vfio").join(linked(address, "iommu_group").unwrap())
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn devices_are_ready_to_be_assigned_and_the_network_card_has_a_peer() {
    if !is_inside() {
        return DETERMINISTIC.passes();
    }
    assert_eq!(id(EDU), ["0x1234", "0x11e8"]);
    assert_eq!(id(E1000E), ["0x8086", "0x10d3"]);
    for address in [EDU, E1000E] {
        can_be_opened(address);
    }
    send_to_the_card();
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_device_without_a_driver_can_be_bound_by_hand_beside_one_that_is_ready() {
    if !is_inside() {
        return FUNCTIONAL.passes();
    }
    can_be_opened(E1000E);
    send_to_the_card();
    assert_eq!(linked(EDU, "driver"), None);
    let group = own_group(EDU);
    assert!(!group.exists());
    fs::write(device(EDU).join("driver_override"), "vfio-pci").unwrap();
    fs::write("/sys/bus/pci/drivers_probe", EDU).unwrap();
    can_be_opened(EDU);
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_device_that_cannot_be_bound_is_an_error_before_the_program() {
    let off = ["--device", "edu", "--append", "intel_iommu=off"];
    let output = output(lab(&off).args(["--", "/bin/sh", "-c", "echo started"]));
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(text(&output.stdout), "");
    let said = text(&output.stderr);
    assert!(said.contains("L1: cannot bind edu (0000:00:03.0) to vfio-pci: the device is in no"));
}

/// VFIO opens a group only if all its devices are bound to VFIO.
fn can_be_opened(address: &str) {
    assert_eq!(linked(address, "driver").as_deref(), Some("vfio-pci"));
    fs::File::options()
        .read(true)
        .write(true)
        .open(own_group(address))
        .unwrap();
}

/// Sends from L1's own interface, the other end of the card's wire.
fn send_to_the_card() {
    let socket = packet_socket("eth0").unwrap();
    let frame = [
        &[0xff; 6][..],
        &[0x52, 0x54, 0, 0, 0, 5],
        &EXPERIMENT.to_be_bytes(),
        &[0; 46],
    ];
    let frame = frame.concat();
    // SAFETY: the frame is alive for the call, and its length is given; the descriptor is the socket's.
    let sent = unsafe { libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
    assert_eq!(sent, 60, "{}", io::Error::last_os_error());
}

/// A socket for experimental frames on this interface.
fn packet_socket(interface: &str) -> io::Result<OwnedFd> {
    let protocol = EXPERIMENT.to_be();
    // SAFETY: makes a descriptor, and has no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(protocol)) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made the descriptor, so nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let index = fs::read_to_string(format!("/sys/class/net/{interface}/ifindex"))?;
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).map_err(io::Error::other)?;
    address.sll_protocol = protocol;
    address.sll_ifindex = index.trim().parse().map_err(io::Error::other)?;
    let length = u32::try_from(size_of_val(&address)).map_err(io::Error::other)?;
    // SAFETY: the address is alive for the call, and its size is given; the descriptor is the socket's.
    let bound = unsafe { libc::bind(fd, (&raw const address).cast(), length) };
    if bound < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}
