package draw

import (
	"fmt"
	"math/big"
	"net/netip"
	"strings"
)

// Count writes a number of addresses for people: exact with separators up to nine digits, then as
// a power of two if it is one, else rounded, as 2.71×10²⁶.
func Count(n *big.Int) string {
	const separated = 9
	if digits := n.String(); len(digits) <= separated {
		return grouped(digits)
	}
	if bits := n.BitLen() - 1; n.TrailingZeroBits() == uint(bits) {
		return "2" + raised(fmt.Sprint(bits))
	}
	rounded, _ := new(big.Float).SetInt(n).Float64()
	mantissa, exponent, _ := strings.Cut(fmt.Sprintf("%.2e", rounded), "e+")
	return mantissa + "×10" + raised(strings.TrimPrefix(exponent, "0"))
}

// raised writes digits as an exponent.
func raised(digits string) string {
	return strings.NewReplacer("0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹").Replace(digits)
}

// Size writes the number of addresses of a prefix.
func Size(p netip.Prefix) string {
	return Count(new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits())))
}

func grouped(digits string) string {
	var out strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			out.WriteByte(',')
		}
		out.WriteRune(digit)
	}
	return out.String()
}
