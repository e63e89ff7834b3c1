# All forms of port input and output, with port 0x1234 in dx or 0x42 in the instruction.
# The results of inputs go to ADDRESS, 8 bytes each.
    mov rbx, rdi
    mov r15, [rbx + {ADDRESS}]
    mov edx, 0xabcd1234
    mov rax, 0x1122334455667788
    out dx, al
    out dx, ax
    out dx, eax
    out 0x42, al
    out 0x42, ax
    out 0x42, eax
    # REX.W and a repeat prefix do nothing to them.
    .byte 0x48, 0xef
    .byte 0xf3, 0xee
    .byte 0x66, 0x48, 0xef
    # Inputs: rax is all ones before each.
    .macro vmbell_input
        mov [r15], rax
        add r15, 8
        mov rax, -1
    .endm
    mov rax, -1
    in al, dx
    vmbell_input
    in ax, dx
    vmbell_input
    in eax, dx
    vmbell_input
    in al, 0x42
    vmbell_input
    in ax, 0x42
    vmbell_input
    in eax, 0x42
    vmbell_input
    .purgem vmbell_input
    mov edx, {DONE_PORT}
    out dx, eax
