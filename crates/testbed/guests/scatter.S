# Writes words to random places in the COUNT bytes at ADDRESS, forever. Each word is random, or one of the VALUE words
# at PAUSE; the word after those is the random seed.
    mov r8, [rdi + {ADDRESS}]
    mov r9, [rdi + {COUNT}]
    mov r10, [rdi + {VALUE}]
    mov r11, [rdi + {PAUSE}]
    mov rbx, [r11 + 8 * r10]
2:
    # xorshift64
    mov rax, rbx
    shl rax, 13
    xor rbx, rax
    mov rax, rbx
    shr rax, 7
    xor rbx, rax
    mov rax, rbx
    shl rax, 17
    xor rbx, rax
    # The place, from the upper half.
    mov rax, rbx
    mul r9
    and rdx, -8
    mov rdi, rdx
    # The value.
    mov rax, rbx
    rol rax, 23
    test rax, 15
    jz 3f
    mul r10
    mov rax, [r11 + 8 * rdx]
3:
    mov [r8 + rdi], rax
    jmp 2b
