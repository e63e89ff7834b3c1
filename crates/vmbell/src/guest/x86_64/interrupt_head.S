# What every program that takes interrupts begins with; the program's own part goes on behind it, at 20.
# rdi = parameters, rsi = index of the vcpu; rbx keeps the parameters, in handlers too. The handler is
# 16 bytes in, and expects the program's own part at 30: it may change rax, rcx and rdx.
    jmp 10f
    .balign 16
    push rax
    push rcx
    push rdx
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov [rbx + {ENTERED}], rax
    call 30f
    inc qword ptr [rbx + {INTERRUPTS}]
    pop rdx
    pop rcx
    pop rax
    # The vector: there is only one.
    add rsp, 8
    jmp qword ptr [rip + 1f]
1:
    .quad {INTERRUPT_RETURN}

# The end of an interrupt to a program that looks from rcx on whether to halt, right before rdx: what it
# saw may be old now, so it goes on behind the halt. So it needs neither cli nor sti, which are exits
# where they are emulated, nor the shadow of sti, which an emulated host may forget (docs/lab.md).
16:
    cmp [rsp + 40], rcx
    jb 15f
    cmp [rsp + 40], rdx
    jae 15f
    mov [rsp + 40], rdx
# The end of an interrupt: by the bit if there is one and it is set, else by the register.
15:
    mov rcx, [rbx + {PV_EOI}]
    test rcx, rcx
    jz 1f
    btr dword ptr [rcx], 0
    jnc 1f
    inc qword ptr [rbx + {SPARED}]
    ret
1:
    xor eax, eax
    cmp qword ptr [rbx + {XAPIC}], 0
    jne 2f
    xor edx, edx
    mov ecx, 0x80b
    wrmsr
    ret
2:
    mov ecx, 0xfee000b0
    mov [rcx], eax
    ret

# The local APIC, the PV EOI word, and the I/O APIC's pin if there is a route.
10:
    mov rbx, rdi
    cmp qword ptr [rbx + {XAPIC}], 0
    jne 1f
    mov ecx, 0x1b
    rdmsr
    or eax, 0xc00
    wrmsr
    mov eax, 0x1ff
    xor edx, edx
    mov ecx, 0x80f
    wrmsr
    jmp 2f
1:
    mov ecx, 0xfee000f0
    mov eax, 0x1ff
    mov [rcx], eax
2:
    # Each APIC has its own word, and the first vcpu alone has one.
    test rsi, rsi
    jnz 20f
    mov rax, [rbx + {PV_EOI}]
    test rax, rax
    jz 3f
    mov rdx, rax
    shr rdx, 32
    or eax, 1
    mov ecx, 0x4b564d04
    wrmsr
3:
    mov edx, [rbx + {ROUTE}]
    test edx, edx
    jz 20f
    mov ecx, 0xfec00000
    mov eax, [rbx + {PIN}]
    lea eax, [rax + rax + 0x11]
    mov [rcx], eax
    xor eax, eax
    mov [rcx + 0x10], eax
    mov eax, [rbx + {PIN}]
    lea eax, [rax + rax + 0x10]
    mov [rcx], eax
    mov [rcx + 0x10], edx
    jmp 20f
