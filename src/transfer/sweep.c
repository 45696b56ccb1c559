// SPDX-License-Identifier: Apache-2.0
/* Two leftist heaps (Crane 1972), each melded along right spines of logarithmic length. */
#include "transfer/sweep.h"
#include "transfer/plan.h"

static uint32_t rank(const struct sfile *f)
{
	return f ? f->rank : 0;
}

static bool before(const struct sfile *a, const struct sfile *b)
{
	return a->address != b->address ? a->address < b->address : a->id < b->id;
}

static struct sfile *meld(struct sfile *a, struct sfile *b)
{
	struct sfile *swap;

	if (!a || !b)
		return a ? a : b;
	if (before(b, a)) {
		swap = a;
		a = b;
		b = swap;
	}
	a->right = meld(a->right, b);
	if (rank(a->left) < rank(a->right)) {
		swap = a->left;
		a->left = a->right;
		a->right = swap;
	}
	a->rank = rank(a->right) + 1;
	return a;
}

void sweep_add(struct sweep *w, struct sfile *f)
{
	struct sfile **heap = f->address >= w->head ? &w->now : &w->later;

	f->left = f->right = NULL;
	f->rank = 1;
	*heap = meld(*heap, f);
}

struct sfile *sweep_first(struct sweep *w)
{
	if (!w->now && w->later) {
		w->now = steal_ptr(&w->later);
		w->head = 0;
	}
	return w->now;
}

struct sfile *sweep_take(struct sweep *w)
{
	struct sfile *f = sweep_first(w);

	w->now = meld(f->left, f->right);
	w->head = f->address;
	return f;
}
