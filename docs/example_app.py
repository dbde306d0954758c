"""An app's backend on the client: its users save workouts, and see them in their own boards at once.

STATS_URL is the address of the HTTP service, STATS_REFRESH_JWT_SECRET the secret that it checks tokens with.
Run it: `uvicorn --app-dir docs example_app:app`
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Annotated, Any
from uuid import UUID

import jwt
from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel

from edge.client import AsyncAccount, AsyncClient, Receipt, Reconciled, Refused, Session, Unanswered


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # One client for all users: it shares connections and flights.
    async with AsyncClient(os.environ["STATS_URL"]) as app.state.client:
        yield


app = FastAPI(lifespan=lifespan)


def signed_in(
    request: Request, bearer: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]
) -> AsyncAccount:
    """Return the calls of the user whose token this is. The app checks it: the client does not."""
    try:
        claims = jwt.decode(
            bearer.credentials,
            os.environ["STATS_REFRESH_JWT_SECRET"],
            algorithms=["HS256"],
            options={"require": ["exp", "sub"]},
        )
        user_id = UUID(claims["sub"])
    except (jwt.PyJWTError, ValueError) as error:
        raise HTTPException(401, "not signed in") from error
    client: AsyncClient = request.app.state.client
    return client.account(user_id, bearer.credentials)


Me = Annotated[AsyncAccount, Depends(signed_in)]


class Workout(BaseModel):
    day: date
    exercises: list[Any]


@app.post("/workouts")
async def save_workout(me: Me, workout: Workout, idempotency_key: Annotated[UUID, Header()]) -> Receipt:
    """Save a workout. The phone makes up the key, so that it can send a workout again, and none is stored twice."""
    session: Session = {"session_date": workout.day, "exercises": workout.exercises}
    return await me.save(session, mutation_id=idempotency_key)


@app.get("/screens")
async def screens(
    me: Me, generation: Annotated[int, Query(ge=1)], day: date, exercise_id: str | None = None
) -> Reconciled:
    """Show the boards with what the receipt of `generation` saved."""
    return await me.reconcile(generation, day, exercise_id=exercise_id)


@app.exception_handler(Refused)
async def refused(_request: Request, error: Refused) -> JSONResponse:
    return JSONResponse({"detail": error.detail}, error.status)


@app.exception_handler(Unanswered)
async def unanswered(_request: Request, _error: Unanswered) -> JSONResponse:
    return JSONResponse({"detail": "Send the same again, with the same Idempotency-Key."}, 503)
