use std::os::unix::net::UnixListener;
use std::thread;

use super::*;

const TREE: &str = "\
FlatView #0
 AS \"virtio-rng-pci\", root: bus master container
 Root memory region: (none)
  00000000febf1000-00000000febf1fff (prio 0, i/o): of another space

FlatView #1
 AS \"memory\", root: system
 AS \"cpu-memory-0\", root: system
 Root memory region: system
  0000000000000000-00000000000bffff (prio 0, ram): pc.ram KVM
  00000000fe003000-00000000fe003fff (prio 0, i/o): virtio-pci-notify-virtio-rng @0000000000001000
  nonsense (prio 0, i/o): x

FlatView #2
 AS \"I/O\", root: io
 Root memory region: io
  0000000000000608-000000000000060b (prio 0, i/o): acpi-tmr
";

#[test]
fn regions_of_devices_are_those_of_memory_and_of_ports() {
    let expected = [
        Region::new(
            Space::Mmio,
            0xfe00_3000..=0xfe00_3fff,
            "virtio-pci-notify-virtio-rng",
        ),
        Region::new(Space::Port, 0x608..=0x60b, "acpi-tmr"),
    ];
    assert_eq!(regions(TREE), expected);
}

#[test]
fn the_option_has_a_process_and_a_socket() {
    let qmp = Qmp {
        pid: 4711,
        socket: "/run/a=b".into(),
    };
    assert_eq!("4711=/run/a=b".parse(), Ok(qmp));
    for wrong in ["4711", "4711=", "0=/run/a", "x=/run/a", "=/run/a"] {
        assert!(wrong.parse::<Qmp>().is_err(), "{wrong}");
    }
}

/// What is said of a socket that answers so.
fn asked(answers: &'static [&'static str]) -> Result<String> {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("qmp");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        writeln!(stream, "{{\"QMP\": {{}}}}").unwrap();
        for answer in answers {
            lines.next().unwrap().unwrap();
            writeln!(stream, "{{\"event\": \"RESUME\"}}\n{answer}").unwrap();
        }
        // It closes the socket after one more command, if there is one.
        lines.next();
    });
    let answer = ask(&socket);
    server.join().unwrap();
    answer
}

#[test]
fn qemu_is_asked_between_its_events() {
    let tree = asked(&["{\"return\": {}}", "{\"return\": \"a\\nb\"}"]);
    assert_eq!(tree.unwrap(), "a\nb");
    const REFUSED: &str = "{\"error\": {\"desc\": \"no such command\"}}";
    let error = asked(&["{\"return\": {}}", REFUSED]).unwrap_err();
    assert_eq!(error.to_string(), "QEMU refuses: no such command");
    let error = asked(&["{\"return\": {}}"]).unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
    let error = asked(&["HTTP/1.1 400 Bad Request"]).unwrap_err();
    assert_eq!(error.to_string(), "it is not QMP");
}
