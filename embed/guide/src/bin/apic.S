    jmp 1f
    .balign 16
    # The interrupt handler, at byte 16 (vmbell_guest::HANDLER).
    pop rbx                 # the vector
    xor eax, eax
    xor edx, edx
    mov ecx, 0x80b          # x2APIC EOI
    wrmsr
    jmp qword ptr [rip + 2f]
2:
    .quad {INTERRUPT_RETURN}

1:
    mov ecx, 0x1b           # IA32_APIC_BASE: enables x2APIC
    rdmsr
    or eax, 0xc00
    wrmsr
    mov ecx, 0x80f          # x2APIC SIVR: enables interrupts
    mov eax, 0x1ff
    xor edx, edx
    wrmsr
