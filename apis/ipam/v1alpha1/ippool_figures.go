package v1alpha1

// PoolCapacity counts addresses, exactly, as decimal strings: allocated and
// available make up total.
type PoolCapacity struct {
	// total is the number of addresses of the pool, network and broadcast included.
	// +kubebuilder:validation:MaxLength=39
	// +required
	Total string `json:"total"`

	// allocated is the number of addresses held, reserved or excluded.
	// +kubebuilder:validation:MaxLength=39
	// +required
	Allocated string `json:"allocated"`

	// available is the number of addresses that can still be handed out.
	// +kubebuilder:validation:MaxLength=39
	// +required
	Available string `json:"available"`

	// cooling is the number of those allocated addresses that were freed, and cannot be
	// allocated again yet. Absent when there are none.
	// +kubebuilder:validation:MaxLength=39
	// +optional
	Cooling string `json:"cooling,omitempty"`
}

// PoolLedger names the ledger that a status is of, and its number of changes then. It
// shows whether a ledger was lost or restored since.
type PoolLedger struct {
	// id is the ledger's own, made at random with it.
	// +kubebuilder:validation:MaxLength=64
	// +required
	ID string `json:"id"`

	// changes counts the changes that were ever made to the pool's address space,
	// as of this status.
	// +kubebuilder:validation:Minimum=0
	// +required
	Changes int64 `json:"changes"`
}
