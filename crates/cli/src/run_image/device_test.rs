use super::*;

fn config(text: &str) -> PciTestdevConfig {
    match device(text).unwrap() {
        Device::PciTestdev(config) => config,
        Device::PcTestdev => panic!("another device"),
    }
}

#[test]
fn properties_are_read() {
    assert_eq!(config("pci-testdev"), PciTestdevConfig::default());
    let all = config("pci-testdev,membar=4G,pv=on");
    assert_eq!((all.membar, all.pv), (4 << 30, true));
    assert!(config("pci-testdev,pv").pv);
    assert!(!config("pci-testdev,pv=on,pv=off").pv);
}

#[test]
fn devices_whose_names_are_alike_are_told_apart() {
    assert_eq!(device("pc-testdev"), Ok(Device::PcTestdev));
    let default = Device::PciTestdev(PciTestdevConfig::default());
    assert_eq!(device("pci-testdev"), Ok(default));
}

#[test]
fn mistakes_are_named_with_what_was_meant() {
    let cases = [
        (
            "pci-tesdev",
            "unknown device 'pci-tesdev', did you mean 'pci-testdev'?",
        ),
        ("pc-tesdev", "did you mean 'pc-testdev'?"),
        ("", "unknown device ''"),
        (
            "pc-testdev,pv=on",
            "pc-testdev has no properties, so no 'pv=on'",
        ),
        ("pc-testdev,", "pc-testdev has no properties, so no ''"),
        (
            "pci-testdev,membr=1M",
            "no property 'membr', did you mean 'membar'?",
        ),
        ("pci-testdev,pv=yes", "pv: 'on' or 'off'"),
        ("pci-testdev,membar=big", "membar: "),
        ("pci-testdev,", "no property ''"),
    ];
    for (text, message) in cases {
        let error = device(text).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}
