use super::*;

#[test]
fn an_exit_is_told_in_words() {
    let (port, len, address) = (0x10, 4, 0xd000_0000);
    let fault = Fault {
        exception: "#UD",
        pc: Some(0x1000),
        address: None,
        bytes: vec![0x0f, 0x0b],
        reason: "an invalid instruction",
    };
    for (exit, words) in [
        (
            VmExit::PioIn { port, len },
            "read of 4 bytes from port 0x10",
        ),
        (
            VmExit::PioOut {
                port,
                len,
                data: 42,
            },
            "write of 0x2a, 4 bytes, to port 0x10",
        ),
        (
            VmExit::MmioRead { address, len },
            "read of 4 bytes from 0xd0000000",
        ),
        (
            VmExit::MmioWrite {
                address,
                len,
                data: 42,
            },
            "write of 0x2a, 4 bytes, to 0xd0000000",
        ),
        (
            VmExit::Hypercall {
                number: 1,
                argument: 2,
            },
            "hypercall 0x1 with 0x2",
        ),
        (
            VmExit::Fault(Box::new(fault)),
            "fault: #UD at 0x1000: an invalid instruction, bytes 0f 0b",
        ),
    ] {
        assert_eq!(exit.to_string(), words);
    }
}
