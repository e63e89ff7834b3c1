use super::super::device;
use super::*;
use vmbell_devices::virtio::VirtioConfig;

fn read(text: &str) -> (VirtioDevice, VirtioConfig) {
    match device(text).unwrap() {
        RunDevice::Virtio(device, ways) => (device, ways.config(Notify::Doorbell)),
        other => panic!("{other:?}"),
    }
}

fn defaults() -> VirtioConfig {
    VirtioConfig {
        notify_ports: true,
        ..VirtioConfig::default()
    }
}

#[test]
fn ways_of_a_virtio_device_are_read() {
    let short = defaults();
    assert_eq!(read("virtio-rng"), (VirtioDevice::Rng, short));
    assert_eq!(read("virtio-console"), (VirtioDevice::Console, short));
    let long = "virtio-rng,notify=ioeventfd,interrupt=irqfd,packed=off";
    assert_eq!(read(long), (VirtioDevice::Rng, short));
    let all = VirtioConfig {
        notify: Notify::Exit,
        raise: Raise::Call,
        notify_ports: false,
        packed: true,
        notification_data: false,
    };
    let long = "virtio-rng,notify=exit,interrupt=call,packed,notify-ports=off";
    assert_eq!(read(long), (VirtioDevice::Rng, all));
    let polls = VirtioConfig {
        notify: Notify::Poll,
        ..short
    };
    assert_eq!(read("virtio-rng,notify=poll"), (VirtioDevice::Rng, polls));
    let data = VirtioConfig {
        notification_data: true,
        ..short
    };
    let text = "virtio-rng,notification-data";
    assert_eq!(read(text), (VirtioDevice::Rng, data));
    assert!(device(text).unwrap().needs_payloads());
    assert!(!device("virtio-rng").unwrap().needs_payloads());
}

#[test]
fn a_way_of_notifications_that_is_not_named_is_the_default() {
    let notify = |text: &str| match device(text).unwrap() {
        RunDevice::Virtio(_, ways) => ways.config(Notify::Poll).notify,
        other => panic!("{other:?}"),
    };
    assert_eq!(notify("virtio-rng"), Notify::Poll);
    assert_eq!(notify("virtio-rng,notify=ioeventfd"), Notify::Doorbell);
    assert_eq!(notify("virtio-rng,notify=exit"), Notify::Exit);
    // vhost-net has no thread that polls.
    assert_eq!(notify("virtio-net,tap=tap0"), Notify::Poll);
    assert_eq!(notify("virtio-net,tap=tap0,vhost"), Notify::Doorbell);
    assert_eq!(notify("virtio-vsock,cid=3"), Notify::Doorbell);
}

#[test]
fn virtio_device_is_on_pci_unless_it_is_to_be_on_mmio() {
    let mmio = device("virtio-rng,transport=mmio,packed=on");
    let is_mmio = |device: &RunDevice| matches!(device, RunDevice::VirtioMmio(VirtioDevice::Rng, ways) if ways.config(Notify::Doorbell).packed);
    assert!(mmio.as_ref().is_ok_and(is_mmio), "{mmio:?}");
    let pci = (VirtioDevice::Rng, defaults());
    assert_eq!(read("virtio-rng,transport=pci"), pci);
    let error = device("virtio-rng,transport=isa").unwrap_err();
    assert_eq!(error, "transport: expected 'pci' or 'mmio'");
    let error = device("virtio-rng,transport=mmio,notify-ports").unwrap_err();
    assert!(
        error.starts_with("notify-ports needs transport=pci"),
        "{error}"
    );
}

#[test]
fn disk_has_a_file_and_the_ways_of_every_virtio_device() {
    let drive = |readonly| {
        VirtioDevice::Blk(DiskFile {
            file: "/d.img".into(),
            readonly,
            is_raw: readonly,
            locks: !readonly,
            serial: if readonly { "s,1" } else { "" }.parse().unwrap(),
        })
    };
    let default = defaults();
    assert_eq!(read("virtio-blk,file=/d.img"), (drive(false), default));
    let exit = VirtioConfig {
        notify: Notify::Exit,
        ..default
    };
    let long = "virtio-blk,notify=exit,readonly,file=/d.img,format=raw,lock=off,serial=s,,1";
    assert_eq!(read(long), (drive(true), exit));
}

#[test]
fn a_comma_in_the_name_of_a_file_is_written_twice() {
    let VirtioDevice::Blk(drive) = read("virtio-blk,file=/a,,b=c,,,readonly").0 else {
        panic!("it is another device")
    };
    assert_eq!((drive.file, drive.readonly), ("/a,b=c,".into(), true));
    let socket = read("vhost-user-blk,socket=/a,,b").0;
    assert_eq!(socket, VirtioDevice::UserBlk("/a,b".into()));
}

#[test]
fn interface_has_the_address_that_is_given_or_one_of_its_own() {
    let link = |mac, offloads, vhost| {
        VirtioDevice::Net(TapLink {
            tap: "tap0".to_owned(),
            mac,
            offloads,
            vhost,
        })
    };
    let given = read("virtio-net,vhost,tap=tap0,offload=off,mac=52:54:00:01:02:03").0;
    let mac = Mac([0x52, 0x54, 0, 1, 2, 3]);
    assert_eq!(given, link(mac, Offloads::Off, true));
    let own = link(Mac::of("tap0"), Offloads::On, false);
    assert_eq!(read("virtio-net,tap=tap0").0, own);
}

#[test]
fn sockets_have_the_context_id_of_a_guest() {
    let VirtioDevice::Vsock(cid) = read("virtio-vsock,cid=4294967294").0 else {
        panic!("it is another device")
    };
    assert_eq!(cid.to_string(), "4294967294");
}

#[test]
fn memory_is_shared_with_the_process_behind_a_socket_only() {
    for transport in ["pci", "mmio"] {
        let disk = format!("vhost-user-blk,socket=/run/disk,transport={transport}");
        assert!(device(&disk).unwrap().shares_memory(), "{transport}");
    }
    assert_eq!(
        read("vhost-user-blk,socket=/run/disk").0,
        VirtioDevice::UserBlk("/run/disk".into())
    );
    assert!(!device("virtio-rng").unwrap().shares_memory());
}

#[test]
fn mistakes_are_named() {
    let cases = [
        (
            "virtio-rng,notify",
            "notify: expected 'ioeventfd' or 'poll' or 'exit'",
        ),
        (
            "virtio-rng,interrupt=msi",
            "interrupt: expected 'irqfd' or 'call'",
        ),
        ("virtio-rng,host=x", "virtio-rng has no property 'host'"),
        ("virtio-blk", "virtio-blk needs file=FILE"),
        (
            "virtio-blk,file=d,readonly=1",
            "readonly: expected 'on' or 'off'",
        ),
        (
            "virtio-blk,file=d,serial=123456789012345678901",
            "serial: a serial number has at most 20 bytes, but this one has 21",
        ),
        ("virtio-net", "virtio-net needs tap=NAME"),
        ("virtio-net,tap=a,mac=1", "mac: an address of one interface"),
        (
            "virtio-net,tap=a,vhost,packed",
            "vhost-net does not support packed rings",
        ),
        (
            "virtio-net,tap=a,offload=2",
            "offload: expected 'on' or 'off'",
        ),
        ("vhost-user-blk", "vhost-user-blk needs socket=PATH"),
        ("vhost-user-blk,socket=a,packed", "not support packed rings"),
        (
            "virtio-rng,notification-data,notify=exit",
            "notification-data needs notify=ioeventfd",
        ),
        (
            "virtio-rng,notification-data,transport=mmio",
            "notification-data needs transport=pci",
        ),
        (
            "virtio-net,tap=a,vhost,notify=poll",
            "vhost-net does not poll",
        ),
        (
            "virtio-vsock,cid=3,notification-data",
            "vhost-vsock does not support notification data",
        ),
        (
            "virtio-vsock",
            "virtio-vsock needs cid=N: The guest's context ID",
        ),
        (
            "virtio-vsock,cid=2",
            "cid: '2' is not a context ID of a guest",
        ),
        ("virtio-vsock,cid=4294967295", "a number from 3 to 42949672"),
        ("virtio-vsock,cid=3,packed", "not support packed rings"),
    ];
    for (text, message) in cases {
        let error = device(text).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}
