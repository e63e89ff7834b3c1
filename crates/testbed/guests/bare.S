# Switches its local APIC on, loads VALUE into its stack pointer, says so on a port, and spins with interrupts on.
    mov r15, rdi
    mov ecx, 0x1b
    rdmsr
    or eax, 0xc00
    wrmsr
    mov ecx, 0x80f
    mov eax, 0x1ff
    xor edx, edx
    wrmsr
    mov rsp, [r15 + {VALUE}]
    out 0x77, al
    sti
2:
    pause
    jmp 2b
