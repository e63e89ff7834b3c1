use super::*;

fn config(text: &str) -> PciTestdevConfig {
    match device(text).unwrap() {
        RunDevice::PciTestdev(config) => config,
        other => panic!("{other:?}"),
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
    assert_eq!(device("pc-testdev"), Ok(RunDevice::PcTestdev));
    let default = RunDevice::PciTestdev(PciTestdevConfig::default());
    assert_eq!(device("pci-testdev"), Ok(default));
}

#[test]
fn device_of_the_host_is_named() {
    let assigned = |text: &str| match device(text).unwrap() {
        RunDevice::VfioPci(device) | RunDevice::VfioPlatform(device) => (device.host, device.mmap),
        other => panic!("{other:?}"),
    };
    let card = "0000:00:04.0".to_owned();
    assert_eq!(assigned("vfio-pci,host=0000:00:04.0"), (card.clone(), true));
    assert_eq!(
        assigned("vfio-pci,mmap=off,host=0000:00:04.0"),
        (card, false)
    );
    let clock = "9010000.pl031".to_owned();
    assert_eq!(assigned("vfio-platform,host=9010000.pl031"), (clock, true));
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
        ("pci-testdev,pv=yes", "pv: expected 'on' or 'off'"),
        ("virtio-nte", "did you mean 'virtio-net'?"),
        ("virtio-rgn", "did you mean 'virtio-rng'?"),
        ("pci-testdev,membar=big", "membar: "),
        ("pci-testdev,", "no property ''"),
        (
            "vfio-pci",
            "vfio-pci needs host=ADDRESS: The device's address, for example 0000",
        ),
        (
            "vfio-pci,hots=1",
            "no property 'hots', did you mean 'host'?",
        ),
        ("vfio-pci,host=1,mmap=no", "mmap: expected 'on' or 'off'"),
        ("vfio-pci,help", "vfio-pci has no property 'help'"),
        ("help", "unknown device 'help'"),
        ("vfio-platfrm", "did you mean 'vfio-platform'?"),
    ];
    for (text, message) in cases {
        let error = device(text).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn help_has_each_device_with_its_properties_and_what_virtio_devices_share_once() {
    let text = help();
    for part in [
        "\nvirtio-rng\n",
        "\nvirtio-blk,file=FILE[,PROPERTY=VALUE]...\n",
        "\n    file=FILE: ",
        "\n    readonly=on|off: ",
        "\n    format=raw: ",
        "\n    lock=on|off: ",
        "\n    serial=TEXT: ",
        "\nvirtio-vsock,cid=N\n",
        "\nvfio-pci,host=ADDRESS[,PROPERTY=VALUE]...\n",
        "\nchr-testdev\n",
        "\n    notify=ioeventfd|poll|exit: ",
        "\n    interrupt=irqfd|call: ",
        "\n    notify-ports=on|off: ",
        "\n    packed=on|off: ",
        "\n    notification-data=on|off: ",
        "\n    transport=pci|mmio: ",
    ] {
        assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
    }
}
