//! The guests' programs, in machine code.

use vmbell_devices::WAKING_VECTOR;

use kit::image::Segment;

const SERIAL: u16 = 0x3f8;
/// The address of the code that runs after a sleep, in real mode.
const AWAKE: u32 = 0x8000;

/// The register from which an `out` instruction takes its value.
#[derive(Clone, Copy)]
enum Width {
    Byte,
    Word,
    Double,
}

/// `mov edx, port; mov eax, value; out dx, al`, `ax` or `eax`, in 32-bit code.
fn out(width: Width, port: u16, value: u32) -> Vec<u8> {
    let mut code = vec![0xba];
    code.extend(u32::from(port).to_le_bytes());
    code.push(0xb8);
    code.extend(value.to_le_bytes());
    match width {
        Width::Byte => code.push(0xee),
        Width::Word => code.extend([0x66, 0xef]),
        Width::Double => code.push(0xef),
    }
    code
}

/// Writes a letter to the serial port, and halts forever: `cli; hlt; jmp` to the `hlt`.
pub fn halts(letter: u8) -> Vec<u8> {
    let mut code = out(Width::Byte, SERIAL, letter.into());
    code.extend([0xfa, 0xf4, 0xeb, 0xfd]);
    code
}

/// Makes pc-testdev flush a page of RAM, then does the same as [`halts`].
pub fn flushes(letter: u8) -> Vec<u8> {
    let mut code = out(Width::Double, 0xe4, 1 << 20);
    code.extend(halts(letter));
    code
}

/// Goes to sleep (S3) until the clock's alarm, then does the same as [`halts`].
pub fn sleeps_and_wakes(letter: u8) -> (Vec<u8>, Segment) {
    let cmos = |register, value| {
        let mut code = out(Width::Byte, 0x70, register);
        code.extend(out(Width::Byte, 0x71, value));
        code
    };
    // Enable the alarm as a wake-up event, once per second.
    let mut code = out(Width::Word, 0x602, 0x400);
    for register in [1, 3, 5] {
        code.extend(cmos(register, 0xc0));
    }
    code.extend(cmos(0x0b, 0x22));
    // mov dword ptr [WAKING_VECTOR], AWAKE
    code.extend([0xc7, 0x05]);
    code.extend(WAKING_VECTOR.to_le_bytes());
    code.extend(AWAKE.to_le_bytes());
    code.extend(out(Width::Word, 0x604, 0x2400));
    code.extend([0xfa, 0xf4, 0xeb, 0xfd]);
    // mov dx, SERIAL; mov al, letter; out dx, al; cli; hlt; jmp to the hlt
    let [low, high] = SERIAL.to_le_bytes();
    let awake = [0xba, low, high, 0xb0, letter, 0xee, 0xfa, 0xf4, 0xeb, 0xfd];
    (code, Segment::new(AWAKE, awake))
}
