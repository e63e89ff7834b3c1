# String input and output at port ADDRESS with the COUNT elements at VALUE, forwards and backwards. WORD takes rcx and
# rsi or rdi after each of the passes, at 16-byte steps. Each further entry repeats this.
    mov rbx, rdi
10: lea r15, [rbx + {WORD}]
    .macro vmbell_pass pointer, instruction:vararg
        mov rcx, [rbx + {COUNT}]
        mov rsi, [rbx + {VALUE}]
        mov rdi, [rbx + {VALUE}]
        mov edx, [rbx + {ADDRESS}]
        \instruction
        cld
        mov [r15], rcx
        mov [r15 + 8], \pointer
        add r15, 16
    .endm
    vmbell_pass rsi, rep outsb
    vmbell_pass rsi, rep outsw
    vmbell_pass rsi, rep outsd
    std
    vmbell_pass rsi, rep outsb
    std
    vmbell_pass rsi, rep outsw
    std
    vmbell_pass rsi, rep outsd
    vmbell_pass rsi, outsb
    vmbell_pass rdi, rep insb
    vmbell_pass rdi, rep insw
    vmbell_pass rdi, rep insd
    std
    vmbell_pass rdi, rep insd
    vmbell_pass rdi, insw
    mov rsi, [rbx + {VALUE}]
    mov edx, [rbx + {ADDRESS}]
    xor ecx, ecx
    rep outsb
    .purgem vmbell_pass
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 10b
