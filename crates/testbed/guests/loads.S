# All forms of loads, from ADDRESS. The registers that they load go to VALUE, 8 bytes each.
    mov rbp, [rdi + {ADDRESS}]
    mov r15, [rdi + {VALUE}]
    .macro vmbell_load instruction:vararg
        mov rax, -1
        mov r11, -1
        \instruction
        mov [r15], rax
        mov [r15 + 8], r11
        add r15, 16
    .endm
    vmbell_load mov al, [rbp]
    vmbell_load mov ah, [rbp]
    vmbell_load mov ax, [rbp]
    vmbell_load mov eax, [rbp]
    vmbell_load mov rax, [rbp]
    vmbell_load mov r11b, [rbp]
    vmbell_load mov r11w, [rbp]
    vmbell_load mov r11d, [rbp]
    vmbell_load mov r11, [rbp]
    vmbell_load movzx ax, byte ptr [rbp]
    vmbell_load movzx eax, byte ptr [rbp]
    vmbell_load movzx rax, byte ptr [rbp]
    vmbell_load movzx eax, word ptr [rbp]
    vmbell_load movzx r11, word ptr [rbp]
    vmbell_load movsx ax, byte ptr [rbp]
    vmbell_load movsx eax, byte ptr [rbp]
    vmbell_load movsx rax, byte ptr [rbp]
    vmbell_load movsx eax, word ptr [rbp]
    vmbell_load movsx r11, word ptr [rbp]
    vmbell_load movsxd rax, dword ptr [rbp]
    vmbell_load movsxd r11, dword ptr [rbp + 0x40]
    vmbell_load movabs al, [0xd0000123]
    vmbell_load movabs ax, [0xd0000124]
    vmbell_load movabs eax, [0xd0000128]
    vmbell_load movabs rax, [0xd0000130]
    # The loaded register is also the address.
    mov rax, rbp
    mov rax, [rax]
    mov [r15], rax
    .purgem vmbell_load
    mov edx, {DONE_PORT}
    out dx, eax
