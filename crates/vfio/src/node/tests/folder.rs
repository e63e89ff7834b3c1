//! The host's tree, as a folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::super::{Choice, Copied, DeviceNode, Tree, sample_tree};
use super::devices::{PERIPHID, clk24mhz, clock, level, parent, property, region, rtc, texts};

const PL031: Choice<'_> = Choice::Path("/pl031@9010000");

fn node(root: &Path, path: &str, properties: &[(&str, &[u8])]) {
    let folder = root.join(path);
    fs::create_dir_all(&folder).unwrap();
    for (name, value) in properties {
        fs::write(folder.join(name), value).unwrap();
    }
}

/// The tree of QEMU's arm64 board, as far as its RTC needs it.
fn board() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    node(
        root,
        "",
        &[("compatible", b"linux,dummy-virt\0"), ("name", b"\0")],
    );
    node(
        root,
        "apb-pclk",
        &[
            ("compatible", b"fixed-clock\0"),
            ("#clock-cells", &[0; 4]),
            ("clock-frequency", &24_000_000_u32.to_be_bytes()),
            ("clock-output-names", b"clk24mhz\0"),
            ("phandle", &[0, 0, 0x80, 0]),
        ],
    );
    node(
        root,
        "pl031@9010000",
        &[
            ("name", b"pl031\0"),
            ("compatible", b"arm,pl031\0arm,primecell\0"),
            ("reg", &[0, 0, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0]),
            ("interrupts", &[0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 4]),
            ("clocks", &[0, 0, 0x80, 0]),
            ("clock-names", b"apb_pclk\0"),
            ("arm,primecell-periphid", &PERIPHID),
            ("iommus", &[0, 0, 0, 9, 0, 0, 0, 1]),
            ("vendor,wire", &[0, 0, 0, 9]),
        ],
    );
    folder
}

fn device(root: &Path) -> Result<DeviceNode, String> {
    let tree = Tree::from_folder(root).unwrap();
    let device = tree.device(&PL031, Copied::Common);
    device.map_err(|error| error.to_string())
}

#[test]
fn a_device_of_the_host_becomes_one_of_the_guests() {
    let board = board();
    let mut device = device(board.path()).unwrap();
    device.regions.push(region(0x8c00_0000, 0x1000));
    device.interrupts.push(level(112));
    assert_eq!(device, rtc());
    sample_tree(&[device], &parent(2, 2, 1)).unwrap();
}

#[test]
fn common_properties_are_copied_and_those_of_the_host_never() {
    let board = board();
    let tree = Tree::from_folder(board.path()).unwrap();
    let copied = |copied| {
        let device = tree.device(&PL031, copied).unwrap();
        let names = device.properties.into_iter().map(|property| property.name);
        names.collect::<Vec<_>>()
    };
    let common = ["arm,primecell-periphid", "clock-names"];
    assert_eq!(copied(Copied::Common), common);
    let all = ["arm,primecell-periphid", "clock-names", "vendor,wire"];
    assert_eq!(copied(Copied::All), all);
}

#[test]
fn a_clock_that_is_not_fixed_is_an_error_that_names_it() {
    let board = board();
    node(
        board.path(),
        "apb-pclk",
        &[("compatible", b"arm,sp810-pll\0")],
    );
    assert_eq!(
        device(board.path()).unwrap_err(),
        "/pl031@9010000: its clock /apb-pclk is not a fixed-clock but arm,sp810-pll, which a guest cannot drive"
    );
    fs::remove_file(board.path().join("apb-pclk/phandle")).unwrap();
    assert_eq!(
        device(board.path()).unwrap_err(),
        "/pl031@9010000: no node has the phandle 0x8000 of its clock"
    );
}

#[test]
fn a_clock_may_be_there_twice_and_say_little() {
    let board = board();
    let rtc = "pl031@9010000";
    let clocks = [0, 0, 0x80, 0, 0, 0, 0, 7, 0, 0, 0x80, 0];
    node(board.path(), rtc, &[("clocks", &clocks)]);
    let bare: [(&str, &[u8]); 2] = [("compatible", b"fixed-clock\0"), ("phandle", &[0, 0, 0, 7])];
    node(board.path(), "clocks/bare", &bare);
    let clocks = device(board.path()).unwrap().clocks;
    assert_eq!(clocks, [clk24mhz(), clock(None, &[]), clk24mhz()]);
}

#[test]
fn malformed_properties_are_named() {
    for (path, name, value) in [
        ("pl031@9010000", "clocks", &[0, 0, 0x80][..]),
        ("pl031@9010000", "clocks", &[0; 4 * 65]),
        ("apb-pclk", "clock-frequency", &[0; 8]),
        ("apb-pclk", "clock-output-names", b"clk24mhz"),
        ("apb-pclk", "#clock-cells", &[0, 0, 0, 1]),
    ] {
        let board = board();
        node(board.path(), path, &[(name, value)]);
        let error = device(board.path()).unwrap_err();
        let expected = format!("/{path}: the value of '{name}' is malformed");
        assert_eq!(error, expected);
    }
    let board = board();
    let bad: [(&str, &[u8]); 1] = [("compatible", &[0xff, 0])];
    node(board.path(), "pl031@9010000", &bad);
    let error = device(board.path()).unwrap_err();
    assert!(error.contains("'compatible' is malformed"), "{error}");
}

#[test]
fn a_device_without_clocks_has_no_names_of_them() {
    let board = board();
    fs::remove_file(board.path().join("pl031@9010000/clocks")).unwrap();
    node(board.path(), "pl031@9010000", &[("dma-coherent", b"")]);
    let device = device(board.path()).unwrap();
    assert_eq!(device.clocks, []);
    assert_eq!(
        device.properties,
        [property("arm,primecell-periphid", PERIPHID)]
    );
    assert!(device.dma_coherent);
    assert_eq!(device.compatible, texts(&["arm,pl031", "arm,primecell"]));
}

#[test]
fn links_are_not_followed_and_depth_has_an_end() {
    let board = board();
    symlink(".", board.path().join("loop")).unwrap();
    device(board.path()).unwrap();
    node(board.path(), &"a/".repeat(70), &[]);
    let error = Tree::from_folder(board.path()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the device tree has levels, more than 64"
    );
    let error = Tree::from_folder(&board.path().join("absent")).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot read the device tree ")
    );
}
