use super::*;

/// The bytes of each instruction in hexadecimal.
fn bytes(asm: Asm) -> Vec<String> {
    let code = asm.finish().unwrap();
    let each = code.iter().map(|word| {
        let bytes = word.to_le_bytes();
        bytes.map(|byte| format!("{byte:02x}")).join(" ")
    });
    each.collect()
}

#[test]
fn instructions_have_the_bytes_of_the_standard() {
    let mut asm = Asm::default();
    asm.copy(Reg::R6, Reg::R1);
    asm.set(Reg::R2, -1);
    asm.add(Reg::R3, -24);
    asm.subtract(Reg::R1, Reg::R2);
    asm.and(Reg::R1, 0xff);
    asm.or(Reg::R3, Reg::R1);
    asm.shift_left(Reg::R1, 32);
    asm.shift_right(Reg::R1, 32);
    asm.load(Size::Eight, Reg::R7, Reg::R6, 40);
    asm.load(Size::Four, Reg::R9, Reg::R8, 0x1b20);
    asm.load(Size::Two, Reg::R1, Reg::R7, 34);
    asm.load(Size::One, Reg::R4, Reg::R7, -1);
    asm.store(Size::Eight, Reg::Frame, -32, Reg::R8);
    asm.store(Size::Four, Reg::Frame, -8, Reg::R1);
    asm.store(Size::Two, Reg::Frame, -4, Reg::R1);
    asm.store(Size::One, Reg::Frame, -1, Reg::R3);
    asm.store_number(Size::One, Reg::Frame, -2, 6);
    asm.store_number(Size::Eight, Reg::Frame, -48, 1);
    asm.add_to(Reg::R0, 0, Reg::R1);
    asm.map(Reg::R1, 5);
    asm.value_of(Reg::R0, 6);
    asm.call(Helper::ReadKernel);
    asm.exit();
    assert_eq!(
        bytes(asm),
        [
            "bf 16 00 00 00 00 00 00",
            "b7 02 00 00 ff ff ff ff",
            "07 03 00 00 e8 ff ff ff",
            "1f 21 00 00 00 00 00 00",
            "57 01 00 00 ff 00 00 00",
            "4f 13 00 00 00 00 00 00",
            "67 01 00 00 20 00 00 00",
            "77 01 00 00 20 00 00 00",
            "79 67 28 00 00 00 00 00",
            "61 89 20 1b 00 00 00 00",
            "69 71 22 00 00 00 00 00",
            "71 74 ff ff 00 00 00 00",
            "7b 8a e0 ff 00 00 00 00",
            "63 1a f8 ff 00 00 00 00",
            "6b 1a fc ff 00 00 00 00",
            "73 3a ff ff 00 00 00 00",
            "72 0a fe ff 06 00 00 00",
            "7a 0a d0 ff 01 00 00 00",
            "db 10 00 00 00 00 00 00",
            "18 11 00 00 05 00 00 00",
            "00 00 00 00 00 00 00 00",
            "18 20 00 00 06 00 00 00",
            "00 00 00 00 00 00 00 00",
            "85 00 00 00 71 00 00 00",
            "b7 00 00 00 00 00 00 00",
            "95 00 00 00 00 00 00 00",
        ]
    );
}

#[test]
fn jumps_reach_labels_before_and_after_them() {
    let mut asm = Asm::default();
    let (back, ahead) = (asm.label(), asm.label());
    asm.bind(back);
    asm.jump_if(Reg::R1, If::Equal, 2, ahead);
    asm.jump_if(Reg::R9, If::NotEqual32, -11, back);
    asm.jump_if(Reg::R9, If::NotLess32, 0, ahead);
    asm.jump_if(Reg::R9, If::Equal32, 0, ahead);
    asm.jump(back);
    asm.bind(ahead);
    asm.exit();
    assert_eq!(
        bytes(asm)[..5],
        [
            "15 01 04 00 02 00 00 00",
            "56 09 fe ff f5 ff ff ff",
            "76 09 02 00 00 00 00 00",
            "16 09 01 00 00 00 00 00",
            "05 00 fb ff 00 00 00 00",
        ]
    );
}

#[test]
fn a_label_without_a_place_makes_no_program() {
    let mut asm = Asm::default();
    let nowhere = asm.label();
    asm.jump(nowhere);
    assert_eq!(asm.finish(), None);
}
